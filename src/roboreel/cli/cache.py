"""roboreel cache: datasets decoded once, to be read at map speed."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from roboreel.cli.console import output, progress_bar
from roboreel.dataset import open_dataset
from roboreel.dataset.cache import (
    CACHE_FILE,
    CacheManifest,
    Jpeg,
    Picture,
    Raw,
    differences,
    refuse_strangers,
)
from roboreel.dataset.materialize import estimate
from roboreel.errors import CacheError
from roboreel.memory.budget import parse_size
from roboreel.shards import validate_shards

__all__ = ["cache"]

cache = typer.Typer(no_args_is_help=True, help="Decode datasets once; read them at map speed.")


def _home() -> Path:
    """Return where caches lie unless a command is told otherwise."""
    chosen = os.environ.get("ROBOREEL_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "roboreel"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One cache of the folder of caches."""

    path: Path
    manifest: CacheManifest
    size_bytes: int
    used_ns: int
    """When it was last built or opened by a command."""


@cache.command()
def build(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    size: str | None = typer.Option(None, help="Height and width of the images, such as 224x224."),
    jpeg: int | None = typer.Option(None, min=1, max=100, help="Store JPEG of this quality."),
    raw: bool = typer.Option(False, help="Store pixels instead: no decoding, more disk."),
    camera: list[str] = typer.Option(["*"], help="Which cameras, by name or pattern; repeatable."),
    numbers_only: bool = typer.Option(False, help="Store no images, only numbers."),
    out: Path | None = typer.Option(
        None, help="The cache's folder; below the home of caches by default."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what it would cost; write nothing."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Build the cache of a dataset; an interrupted build goes on where it stopped."""
    dataset = open_dataset(path)
    picture: Picture = Raw(_size(size)) if raw else Jpeg(_size(size), jpeg or 95)
    if raw and jpeg is not None:
        raise typer.BadParameter("--raw and --jpeg exclude each other.")
    wanted = {} if numbers_only or not dataset.cameras else dict.fromkeys(camera, picture)
    root = out if out is not None else _home() / _name(dataset.path, wanted)
    cost = estimate(dataset, wanted)
    facts = {
        "path": str(root),
        "frames": cost.frames,
        "cameras": cost.cameras,
        "size_bytes": cost.size_bytes,
        "duration_s": round(cost.duration_s, 1),
        "dry_run": dry_run,
    }
    if not as_json:
        output.print(
            f"{cost.frames:,} frames of {cost.cameras} cameras: about {cost.size_bytes / 1e6:,.0f} "
            f"MB and {cost.duration_s / 60:.1f} minutes, in {escape(str(root))}",
            soft_wrap=True,
        )
    if not dry_run:
        with progress_bar() as progress:
            bar = progress.add_task("Frames", total=cost.frames if cost.cameras else None)
            dataset.materialize(
                root,
                wanted,
                on_rows=lambda done, total: progress.update(bar, completed=done, total=total),
            )
        facts["size_bytes"] = _tree_bytes(root)
    if as_json:
        print(json.dumps(facts))
    elif not dry_run:
        output.print(
            f"Built, {facts['size_bytes'] / 1e6:,.0f} MB. Open it: "  # type: ignore[operator]
            f"reel.open_dataset({str(path)!r}, cache={str(root)!r})",
            soft_wrap=True,
        )


@cache.command("list")
def list_caches(
    home: Path | None = typer.Option(None, help="The folder of caches."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the caches, the last used first."""
    entries = _entries(home)
    if as_json:
        print(json.dumps([_as_json(entry) for entry in entries], indent=1))
        return
    table = Table("cache", "MB", "rows", "images")
    for entry in entries:
        pictures = {
            type(p).__name__ + (f" {p.size}" if p.size else "")
            for p in entry.manifest.cameras.values()
        }
        table.add_row(
            escape(entry.path.name),
            f"{entry.size_bytes / 1e6:,.0f}",
            f"{entry.manifest.num_rows:,}",
            ", ".join(sorted(pictures)) or "none",
        )
    output.print(table)


@cache.command()
def verify(
    path: Path = typer.Argument(..., help="The cache's folder."),
    dataset: Path | None = typer.Option(None, help="Compare with this dataset, too."),
    checksums: bool = typer.Option(False, help="Read every byte."),
) -> None:
    """Say whether a cache is whole, and whether it fits its dataset."""
    manifest = CacheManifest.read(path)
    stores = sorted(p for p in (path / manifest.key).iterdir() if p.is_dir())
    problems = [fault for store in stores for fault in validate_shards(store, checksums=checksums)]
    if dataset is not None:
        problems += differences(manifest, open_dataset(dataset).manifest, every_file=True)
    for problem in problems:
        output.print(f"[yellow]Problem:[/] {escape(problem)}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)
    output.print(f"Whole: {len(stores)} stores, {manifest.num_rows:,} rows.")


@cache.command()
def prune(
    keep_bytes: str = typer.Option(..., help="How much may stay, such as 50GB."),
    home: Path | None = typer.Option(None, help="The folder of caches."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would go; remove nothing."),
) -> None:
    """Remove the caches that were used longest ago, until the rest fits."""
    try:
        limit = parse_size(keep_bytes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    kept = 0
    for entry in _entries(home):
        kept += entry.size_bytes
        if kept > limit:
            kept -= entry.size_bytes
            _remove(entry.path, entry.size_bytes, dry_run=dry_run)
    output.print(f"{kept / 1e6:,.0f} MB kept.")


@cache.command()
def remove(
    path: Path = typer.Argument(..., help="The cache's folder."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would go; remove nothing."),
) -> None:
    """Remove a cache; a folder that is none is left alone."""
    CacheManifest.read(path)
    refuse_strangers(path)
    _remove(path, _tree_bytes(path), dry_run=dry_run)


def _remove(path: Path, size_bytes: int, *, dry_run: bool) -> None:
    if not dry_run:
        # The manifest goes first: what is half removed is no cache.
        (path / CACHE_FILE).unlink(missing_ok=True)
        shutil.rmtree(path)
    word = "Would remove" if dry_run else "Removed"
    output.print(f"{word} {escape(str(path))}, {size_bytes / 1e6:,.0f} MB.", soft_wrap=True)


def _entries(home: Path | None) -> list[_Entry]:
    home = _home() if home is None else home
    if not home.is_dir():
        return []
    found = []
    for path in sorted(home.iterdir()):
        try:
            manifest = CacheManifest.read(path)
        except (CacheError, NotADirectoryError):
            continue
        used = (path / CACHE_FILE).stat().st_mtime_ns
        found.append(_Entry(path, manifest, _tree_bytes(path), used))
    return sorted(found, key=lambda entry: entry.used_ns, reverse=True)


def _as_json(entry: _Entry) -> dict[str, object]:
    return {
        "path": str(entry.path),
        "size_bytes": entry.size_bytes,
        "rows": entry.manifest.num_rows,
        "cameras": {name: repr(p) for name, p in entry.manifest.cameras.items()},
    }


def _tree_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _name(dataset: Path, cameras: dict[str, Picture]) -> str:
    """Return the folder of a cache: one for each dataset and way to store its images."""
    forms = [
        f"{type(p).__name__.lower()}"
        + (f"-{p.size[0]}x{p.size[1]}" if p.size else "")
        + (f"-q{p.quality}" if isinstance(p, Jpeg) else "")
        for p in cameras.values()
    ]
    place = dataset.resolve()
    words = [place.parent.name, place.name, *sorted(set(forms) or {"numbers"})]
    return re.sub(r"[^\w.-]+", "_", "-".join(words))


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or "0" in (match[1], match[2]):
        raise typer.BadParameter(f"{text!r} is not a size: write 224x224.", param_hint="--size")
    return int(match[1]), int(match[2])
