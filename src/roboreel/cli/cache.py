"""roboreel cache: decode datasets once, then read them at memory-map speed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from roboreel.cli.console import output, progress_bar
from roboreel.dataset import open_dataset
from roboreel.dataset.cache import Jpeg, Picture, Raw
from roboreel.dataset.cache.build import estimate
from roboreel.dataset.cache.home import (
    CacheEntry,
    cache_path,
    list_caches,
    prune_caches,
    remove_cache,
    size_of,
    verify_cache,
)
from roboreel.memory.budget import parse_size

__all__ = ["cache"]

cache = typer.Typer(no_args_is_help=True, help="Decode datasets once; read them at map speed.")


@cache.command()
def build(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    size: str | None = typer.Option(None, help="Height and width of the images, such as 224x224."),
    jpeg: int | None = typer.Option(None, min=1, max=100, help="Store JPEG of this quality."),
    raw: bool = typer.Option(False, help="Store pixels: no decoding, more disk."),
    camera: list[str] = typer.Option(["*"], help="Camera name or pattern; repeatable."),
    numbers_only: bool = typer.Option(False, help="Store no images, only numbers."),
    out: Path | None = typer.Option(
        None, help="The cache's folder; by default one in the folder of caches."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the cost; write nothing."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Build the cache of a dataset. An interrupted build resumes where it stopped."""
    if raw and jpeg is not None:
        raise typer.BadParameter("--raw and --jpeg exclude each other.")
    picture: Picture = Raw(_size(size)) if raw else Jpeg(_size(size), jpeg or 95)
    dataset = open_dataset(path)
    wanted = {} if numbers_only or not dataset.cameras else dict.fromkeys(camera, picture)
    root = cache_path(dataset.path, wanted) if out is None else out
    cost = estimate(dataset, wanted)
    size_bytes = cost.size_bytes
    if not as_json:
        output.print(
            f"{cost.frames:,} frames of {cost.cameras} cameras: about {size_bytes / 1e6:,.0f} "
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
        size_bytes = size_of(root)
    if as_json:
        facts = {
            "path": str(root),
            "frames": cost.frames,
            "cameras": cost.cameras,
            "size_bytes": size_bytes,
            "duration_s": round(cost.duration_s, 1),
            "dry_run": dry_run,
        }
        print(json.dumps(facts))
    elif not dry_run:
        output.print(
            f"Built, {size_bytes / 1e6:,.0f} MB. Open it: "
            f"reel.open_dataset({str(path)!r}, cache={str(root)!r})",
            soft_wrap=True,
        )


@cache.command("list")
def list_(
    home: Path | None = typer.Option(None, help="The folder of caches."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the caches, the last used first."""
    entries = list_caches(home)
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
    dataset: Path | None = typer.Option(None, help="Also compare it with this dataset."),
    checksums: bool = typer.Option(False, help="Read every byte."),
) -> None:
    """Check that a cache is complete, and that its dataset has not changed."""
    manifest = None if dataset is None else open_dataset(dataset).manifest
    problems = verify_cache(path, manifest, checksums=checksums)
    for problem in problems:
        output.print(f"[yellow]Problem:[/] {escape(problem)}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)
    output.print("No problems found.")


@cache.command()
def prune(
    keep_bytes: str = typer.Option(..., help="How much may stay, such as 50GB."),
    home: Path | None = typer.Option(None, help="The folder of caches."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would go; remove nothing."),
) -> None:
    """Remove the caches used longest ago until the rest fits."""
    try:
        limit_bytes = parse_size(keep_bytes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    pruned = prune_caches(limit_bytes, home, dry_run=dry_run)
    for entry in pruned.removed:
        _print_removed(entry.path, entry.size_bytes, dry_run)
    for reason in pruned.refused:
        output.print(f"[yellow]Not removed:[/] {escape(reason)}", soft_wrap=True)
    output.print(f"{pruned.kept_bytes / 1e6:,.0f} MB kept.")
    if pruned.refused:
        raise typer.Exit(1)


@cache.command()
def remove(
    path: Path = typer.Argument(..., help="The cache's folder."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would go; remove nothing."),
) -> None:
    """Remove a cache. Folders that are not caches are left alone."""
    _print_removed(path, remove_cache(path, dry_run=dry_run), dry_run)


def _print_removed(path: Path, size_bytes: int, dry_run: bool) -> None:
    word = "Would remove" if dry_run else "Removed"
    output.print(f"{word} {escape(str(path))}, {size_bytes / 1e6:,.0f} MB.", soft_wrap=True)


def _as_json(entry: CacheEntry) -> dict[str, object]:
    return {
        "path": str(entry.path),
        "size_bytes": entry.size_bytes,
        "rows": entry.manifest.num_rows,
        "cameras": {name: repr(picture) for name, picture in entry.manifest.cameras.items()},
    }


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or 0 in (int(match[1]), int(match[2])):
        raise typer.BadParameter(f"{text!r} is not a size: write 224x224.", param_hint="--size")
    return int(match[1]), int(match[2])
