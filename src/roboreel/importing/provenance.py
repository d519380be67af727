"""Where a dataset comes from: a file in meta/ with sources, mapping and what became of each episode."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from roboreel.errors import DatasetError
from roboreel.files import sha256_of, walk, write_atomically
from roboreel.format.paths import METADATA_FOLDER
from roboreel.importing.mapping_file import map_to_json
from roboreel.importing.plan import describe_episode
from roboreel.io.reading import read_file
from roboreel.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.importing.plan import ImportPlan

_FILE = "roboreel_import.json"
_LAYOUT = 1
_EDGE_BYTES = 1024**2
_MOST_BYTES = 1024**3


def provenance_path(root: Path) -> Path:
    """Return the file of a dataset that says where it comes from."""
    return root / METADATA_FOLDER / _FILE


def import_key(plan: ImportPlan) -> str:
    """Return a key that is equal if the same recording is imported in the same way.

    Of each file its name, its size, and its first and last bytes count, so that it is quick.
    """
    digest = hashlib.sha256(json.dumps(map_to_json(plan.mapping), sort_keys=True).encode())
    for file in _files(plan.path):
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as opened:
            digest.update(opened.read(_EDGE_BYTES))
            opened.seek(max(0, size - _EDGE_BYTES))
            digest.update(opened.read(_EDGE_BYTES))
    return digest.hexdigest()


def describe_source(plan: ImportPlan, *, complete: bool) -> dict[str, Any]:
    """Return what there is to say of an imported recording, as plain values.

    Args:
        plan: What was made of it.
        complete: Whether all episodes are saved; only then the whole source is hashed.
    """
    described: dict[str, Any] = {
        "path": plan.path.name,
        "layout": plan.layout,
        "key": import_key(plan),
        "size_bytes": size_of(plan.path),
        "mapping": map_to_json(plan.mapping),
        "fps_reason": plan.fps_reason,
    }
    if complete:
        described["sha256"] = _hash_source(plan.path)
        described["unmapped"] = dict(plan.unmapped)
        described["notes"] = list(plan.notes)
        described["episodes"] = [describe_episode(episode) for episode in plan.episodes]
    return described


def size_of(path: Path) -> int:
    """Return how many bytes a recording has."""
    return sum(file.stat().st_size for file in _files(path))


def _hash_source(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and hashes of all files of a folder."""
    if path.is_file():
        return sha256_of(path)
    digest = hashlib.sha256()
    for file in _files(path):
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_of(file)}\n".encode())
    return digest.hexdigest()


def write_provenance(root: Path, sources: list[dict[str, Any]], *, complete: bool) -> None:
    """Write where a dataset comes from."""
    origin = {
        "layout": _LAYOUT,
        "roboreel": __version__,
        "complete": complete,
        "sources": sources,
    }
    write_atomically(provenance_path(root), json.dumps(origin, indent=1))


def read_provenance(root: Path) -> dict[str, Any] | None:
    """Return where a dataset comes from; None if nothing readable says so."""
    try:
        raw = json.loads(read_file(provenance_path(root), "provenance", most_bytes=_MOST_BYTES))
    except (DatasetError, ValueError, RecursionError):
        return None
    fits = isinstance(raw, dict) and raw.get("layout") == _LAYOUT
    return raw if fits and isinstance(raw.get("sources"), list) else None


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in walk(path) if file.is_file()]
