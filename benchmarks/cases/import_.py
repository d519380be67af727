"""roboreel imports a recording; and what reading, copying or encoding alone takes."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def bring(meter: Meter, path: str, out: str) -> None:
    """Import a recording."""
    with meter.step("import"):
        from roboreel.importing import Changes, import_dataset
    shutil.rmtree(out, ignore_errors=True)
    with meter.step("bring"):
        import_dataset(path, out, changes=Changes(fps=30, task="x"))
    meter.note(megabytes=round(_size(Path(path)) / 1e6, 1))
    shutil.rmtree(out)


def read(meter: Meter, path: str, out: str) -> None:
    """Read a recording's bytes, and hash them as importing does."""
    del out
    files = [Path(path)] if Path(path).is_file() else sorted(Path(path).rglob("*"))
    with meter.step("import"):
        pass
    with meter.step("bring"):
        for file in files:
            if file.is_file():
                digest = hashlib.sha256()
                with file.open("rb") as opened:
                    while block := opened.read(1024**2):
                        digest.update(block)
    meter.note(megabytes=round(_size(Path(path)) / 1e6, 1))


def copy_checked(meter: Meter, path: str, out: str) -> None:
    """Read TFRecord files, verify the checksum of each record, and write the same bytes, synced."""
    with meter.step("import"):
        from roboreel.files import sync_file
        from roboreel.importing.tf_example import list_records, read_record
    copy = Path(out).with_suffix(".copy")
    with meter.step("bring"), copy.open("wb") as written:
        for file in sorted(Path(path).glob("*.tfrecord*")):
            for record in list_records(file):
                written.write(read_record(file, record))
        written.flush()
        sync_file(copy)
    meter.note(megabytes=round(_size(Path(path)) / 1e6, 1))
    copy.unlink()


def encode(meter: Meter, path: str, out: str, frames: int) -> None:
    """Encode the pixels of a recording as importing does, from memory."""
    with meter.step("import"):
        from benchmarks.import_ import raw_pixels
        from roboreel.video.encode import Encoding, VideoWriter
    pixels = list(raw_pixels(frames))
    video = Path(out).with_suffix(".mp4")
    with (
        meter.step("bring"),
        VideoWriter(video, size=(480, 640), fps=30, encoding=Encoding(), fragmented=True) as writer,
    ):
        for image in pixels:
            writer.write(image)
    meter.note(megabytes=round(_size(Path(path)) / 1e6, 1))
    video.unlink()


def _size(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
