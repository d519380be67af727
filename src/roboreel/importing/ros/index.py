"""Where the messages of each topic lie in a container, and when they were: one pass over the file."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from roboreel.importing.ros.decoders import DECODE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from roboreel.importing.ros.container import Container
    from roboreel.importing.ros.packets import PacketWatch

__all__ = ["TopicIndex", "TopicScan", "scan"]


@dataclass(slots=True)
class TopicScan:
    """What is noted of a topic's messages while they pass by: 28 bytes each."""

    stamps: Mapping[int, Callable[[memoryview], int]]
    """By channel, how a message's own time is read; empty if messages have none."""
    packet_of: Callable[[int, memoryview], bytes] | None = None
    watch: PacketWatch | None = None
    """For packets of video, what is found out about them."""
    chunk: array[int] = field(default_factory=lambda: array("i"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    channel: array[int] = field(default_factory=lambda: array("i"))
    log_ns: array[int] = field(default_factory=lambda: array("q"))
    header_ns: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True, slots=True)
class TopicIndex:
    """Where the messages of a topic are, in the order of the file."""

    chunk: NDArray[np.int32]
    offset: NDArray[np.int64]
    channel: NDArray[np.int32]
    log_ns: NDArray[np.int64]
    header_ns: NDArray[np.int64]
    """Their own times; 0 where a message has none. Empty if the topic has none at all."""

    def __len__(self) -> int:
        return len(self.log_ns)


def scan(
    container: Container,
    topic_of: Mapping[int, str],
    scans: Mapping[str, TopicScan],
    choosers: Mapping[str, Callable[[int, memoryview], str]],
) -> dict[str, TopicIndex]:
    """Return the index of each topic.

    Args:
        container: The file.
        topic_of: By channel, its topic.
        scans: By topic, what to note; filled by this.
        choosers: By topic, the function that says of which topic a message really is.
    """
    for chunk in range(container.chunk_count):
        for number, log_ns, offset, data in container.messages(chunk):
            topic = topic_of[number]
            if topic in choosers:
                topic = choosers[topic](number, data)
            noted = scans[topic]
            noted.chunk.append(chunk)
            noted.offset.append(offset)
            noted.channel.append(number)
            noted.log_ns.append(log_ns)
            if noted.stamps:
                noted.header_ns.append(_stamp(noted.stamps.get(number), data))
            if noted.watch is not None and noted.packet_of is not None:
                noted.watch.add(noted.packet_of(number, data))
    return {topic: _index(noted) for topic, noted in scans.items()}


def _stamp(read: Callable[[memoryview], int] | None, data: memoryview) -> int:
    if read is None:
        return 0
    try:
        return max(min(read(data), 2**63 - 1), -(2**63))
    except DECODE_ERRORS:
        return 0  # A damaged message; whoever asks for its values is told.


def _index(noted: TopicScan) -> TopicIndex:
    log_ns, header_ns = np.asarray(noted.log_ns, np.int64), np.asarray(noted.header_ns, np.int64)
    for times in (log_ns, header_ns):
        times.flags.writeable = False  # Callers get them without a copy.
    return TopicIndex(
        np.asarray(noted.chunk, np.int32),
        np.asarray(noted.offset, np.int64),
        np.asarray(noted.channel, np.int32),
        log_ns,
        header_ns,
    )
