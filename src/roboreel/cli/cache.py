"""roboreel cache: decode datasets once, then read them at memory-map speed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roboreel.cli.arguments import (
    DatasetArgument,
    DryRunOption,
    JsonOption,
    KeepBytesOption,
    expanded,
    parse_picture_size,
)
from roboreel.cli.carrying_out import Where
from roboreel.cli.commands import group_of
from roboreel.cli.console import (
    ProgressReport,
    literal,
    output,
    print_json,
    print_line,
    print_problem,
    text_table,
)
from roboreel.cli.groups import grouped
from roboreel.dataset import open_dataset
from roboreel.dataset.cache import Jpeg, Picture, Raw
from roboreel.dataset.cache.build import estimate, is_complete, plan_cache
from roboreel.dataset.cache.build_job import plan_build
from roboreel.dataset.cache.home import (
    CacheEntry,
    cache_path,
    list_caches,
    prune_caches,
    remove_cache,
    size_of,
    verify_cache,
)
from roboreel.errors import JobError
from roboreel.jobs.execute import SMALL_S

if TYPE_CHECKING:
    from roboreel.dataset import Dataset

cache = group_of("cache")

CacheArgument = Annotated[
    Path,
    typer.Argument(
        metavar="CACHE", help="The cache's folder.", show_default=False, callback=expanded
    ),
]
HomeOption = Annotated[
    Path | None, typer.Option("--home", help="The folder of caches.", callback=expanded)
]


@dataclass(frozen=True, slots=True)
class Pictures:
    """How a cache stores images: a group of options."""

    size: Annotated[
        str | None, typer.Option(help="Height and width of the images, such as 224x224.")
    ] = None
    jpeg: Annotated[int | None, typer.Option(min=1, max=100, help="JPEG quality. Default: 95.")] = (
        None
    )
    raw: Annotated[bool, typer.Option("--raw", help="Store pixels: faster, more disk.")] = False
    camera: Annotated[
        list[str] | None,
        typer.Option(help="Camera name or pattern; repeatable. Default: all.", show_default=False),
    ] = None
    numbers_only: Annotated[bool, typer.Option("--numbers-only", help="Store no images.")] = False

    def of(self, dataset: Dataset) -> dict[str, Picture]:
        """Return how to store the cameras of a dataset.

        Raises:
            typer.BadParameter: The options exclude each other.
        """
        if self.raw and self.jpeg is not None:
            raise typer.BadParameter("--raw and --jpeg exclude each other.")
        size = None if self.size is None else parse_picture_size(self.size)
        picture: Picture = Raw(size) if self.raw else Jpeg(size, self.jpeg or 95)
        if self.numbers_only or not dataset.cameras:
            return {}
        return dict.fromkeys(self.camera or ["*"], picture)


@cache.command()
@grouped
def build(
    path: DatasetArgument,
    pictures: Pictures = Pictures(),
    out: Annotated[
        Path | None,
        typer.Option(
            help="The cache's folder. Default: one in the folder of caches.", callback=expanded
        ),
    ] = None,
    where: Where = Where(),
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build the cache of a dataset. An interrupted build resumes where it stopped."""
    dataset = open_dataset(path)
    wanted = pictures.of(dataset)
    root = cache_path(dataset.path, wanted) if out is None else out
    cost = estimate(dataset, wanted)
    size_bytes = cost.size_bytes
    if not as_json:
        print_line(
            f"{cost.frames:,} frames of {cost.cameras} cameras: about {size_bytes / 1e6:,.0f} "
            f"MB and {cost.duration_s / 60:.1f} minutes, in {root}"
        )
    if not dry_run:
        _build(dataset, root, wanted, where)
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
        print_json(facts)
    elif not dry_run:
        print_line(f"Built, {size_bytes / 1e6:,.0f} MB. Open it with:")
        print_line(f"roboreel.open_dataset({path!r}, cache={str(root)!r})")


def _build(dataset: Dataset, root: Path, wanted: dict[str, Picture], where: Where) -> None:
    """Build a cache unless it is there: in this process if that is quick, otherwise as a job."""
    plan = plan_build(dataset, root, wanted)
    if is_complete(root, plan_cache(dataset, wanted)):
        return
    if where.is_chosen or plan.total_cost >= SMALL_S:
        try:
            where.carry_out(plan, f"cache-{dataset.path.name}")
        except JobError:
            # The same command elsewhere was faster.
            if not is_complete(root, plan_cache(dataset, wanted)):
                raise
        return
    with ProgressReport() as progress:
        dataset.materialize(
            root, wanted, on_rows=lambda done, total: progress.show("Frames", done, total)
        )


@cache.command("list")
def list_(
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the caches, the last used first."""
    entries = list_caches(home)
    if as_json:
        print_json([_as_json(entry) for entry in entries])
        return
    table = text_table("cache", "MB", "rows", "images")
    for entry in entries:
        pictures = {
            type(p).__name__ + (f" {p.size}" if p.size else "")
            for p in entry.manifest.cameras.values()
        }
        table.add_row(
            literal(entry.path.name),
            f"{entry.size_bytes / 1e6:,.0f}",
            f"{entry.manifest.num_rows:,}",
            ", ".join(sorted(pictures)) or "none",
        )
    output.print(table)


@cache.command()
def verify(
    path: CacheArgument,
    dataset: Annotated[str | None, typer.Option(help="Also compare it with this dataset.")] = None,
    checksums: Annotated[bool, typer.Option("--checksums", help="Read every byte.")] = False,
) -> None:
    """Check that a cache is complete and fits its dataset."""
    manifest = None if dataset is None else open_dataset(dataset).manifest
    problems = verify_cache(path, manifest, checksums=checksums)
    for problem in problems:
        print_problem(problem)
    if problems:
        raise typer.Exit(1)
    print_line("No problems found.")


@cache.command()
def prune(
    keep_bytes: KeepBytesOption,
    home: HomeOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Remove the caches used longest ago until the rest fits."""
    pruned = prune_caches(keep_bytes, home, dry_run=dry_run)
    for entry in pruned.removed:
        _print_removed(entry.path, entry.size_bytes, dry_run)
    for reason in pruned.refused:
        output.print(f"[yellow]Not removed:[/] {literal(reason)}", soft_wrap=True)
    print_line(f"{pruned.kept_bytes / 1e6:,.0f} MB kept.")
    if pruned.refused:
        raise typer.Exit(1)


@cache.command()
def remove(
    path: CacheArgument,
    dry_run: DryRunOption = False,
) -> None:
    """Remove a cache. Folders that are not caches are left alone."""
    _print_removed(path, remove_cache(path, dry_run=dry_run), dry_run)


def _print_removed(path: Path, size_bytes: int, dry_run: bool) -> None:
    word = "Would remove" if dry_run else "Removed"
    print_line(f"{word} {path}, {size_bytes / 1e6:,.0f} MB.")


def _as_json(entry: CacheEntry) -> dict[str, object]:
    return {
        "path": str(entry.path),
        "size_bytes": entry.size_bytes,
        "rows": entry.manifest.num_rows,
        "cameras": {name: repr(picture) for name, picture in entry.manifest.cameras.items()},
    }
