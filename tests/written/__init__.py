"""Files as earlier versions wrote them: `make.py` writes them, `unpack` puts them into a folder."""

import tarfile
from pathlib import Path


def unpack(name: str, folder: Path) -> Path:
    """Unpack an archive into a folder, and return the folder."""
    with tarfile.open(Path(__file__).with_name(f"{name}.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    return folder
