"""Which packets are keyframes, by what the packets themselves say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.video.nal import keyframe_test
from roboreel.video.reader import open_packets

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from roboreel.video.packet_table import PacketTable


def find_keyframes(
    path: Path, table: PacketTable, stop: int | None = None
) -> NDArray[np.bool_] | None:
    """Return whether decoding can start at each of the first packets, in decoding order.

    Args:
        path: The video file.
        table: Its packets.
        stop: Look at the packets before this one. Default: all, which reads the whole file.

    Returns:
        ``(stop,)``; None for codecs other than AV1, VP9, H.264 and HEVC.
    """
    test = keyframe_test(table.coding)
    if test is None:
        return None
    count = min(len(table.size), len(table.size) if stop is None else stop)
    found = np.zeros(count, dtype=np.bool_)
    with open_packets(path, table) as reader:
        for number, data in reader.read(0, count):
            found[number] = test(data)
    return found
