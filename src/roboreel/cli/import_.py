"""roboreel import: recordings of other formats become a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roboreel.cli.arguments import DryRunOption, JsonOption
from roboreel.cli.carrying_out import Where
from roboreel.cli.console import ProgressReport, print_json, print_line
from roboreel.cli.groups import grouped
from roboreel.files import write_atomically
from roboreel.format.hub import writable_folder
from roboreel.importing.defaults import changed_map
from roboreel.importing.job import first_map, fitted_map, plan_job
from roboreel.importing.mapping import Changes
from roboreel.importing.mapping_file import map_to_toml, parse_ns, read_map
from roboreel.importing.opening import find_sources, open_recording
from roboreel.importing.planning import plan_import
from roboreel.importing.writing import write_dataset
from roboreel.words import counted

if TYPE_CHECKING:
    from roboreel.importing.mapping import ImportMap
    from roboreel.importing.plan import ImportPlan


@dataclass(frozen=True, slots=True)
class How:
    """What differs from the mapping of a recording: a group of options."""

    fps: Annotated[float | None, typer.Option(help="Frames per second.")] = None
    task: Annotated[
        str | None, typer.Option(help="The task in words, where the recording has none.")
    ] = None
    align: Annotated[
        Literal["nearest", "previous", "linear"] | None,
        typer.Option(help="How frames find values in time. Default: nearest."),
    ] = None
    max_gap: Annotated[
        str | None, typer.Option(help="How far from its frame a value may be: 50ms, or none.")
    ] = None
    clock: Annotated[
        Literal["auto", "header", "log"] | None,
        typer.Option(help="Times of messages: header or log. Default: auto."),
    ] = None
    follow: Annotated[
        str | None, typer.Option(metavar="STREAM", help="One frame for each value of a stream.")
    ] = None
    store: Annotated[
        Literal["video", "image"] | None,
        typer.Option(help="Store all cameras so. Default: what is encoded stays."),
    ] = None
    drop_last: Annotated[
        bool, typer.Option("--drop-last", help="Leave out the last frame of each episode.")
    ] = False
    float32: Annotated[bool, typer.Option("--float32", help="Store numbers of 64 bits in 32.")] = (
        False
    )
    distro: Annotated[
        str | None, typer.Option(help="Of ROS, for bags that do not define their messages: humble.")
    ] = None

    def changes(self) -> Changes:
        """Return what to change in a mapping."""
        return Changes(
            fps=self.fps,
            task=self.task,
            align=self.align,
            max_gap_ns=None if self.max_gap is None else parse_ns(self.max_gap, "--max-gap"),
            clock=self.clock,
            follow=self.follow,
            store=self.store,
            drop_last=1 if self.drop_last else None,
            float32=self.float32,
            distro=self.distro,
        )


@grouped
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...", help="Recordings, or folders of them.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The new dataset's folder.", show_default=False),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map", metavar="FILE", help="Which feature comes from which stream, in TOML."
        ),
    ] = None,
    write_map: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the mapping that was recognised, and stop."),
    ] = None,
    how: How = How(),
    where: Where = Where(),
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Import HDF5, Zarr, RLDS, MCAP or ROS bags as a dataset.

    Folders of images or videos beside a CSV table are read too. What was interrupted goes on where
    it stopped when the same command runs again.
    """
    changes = how.changes()
    found = find_sources(sources)
    mapping = None if map_file is None else read_map(map_file)
    if write_map is not None:
        _write_map(found[0], mapping, changes, write_map)
        return
    if dry_run:
        _show(found, mapping, changes, as_json=as_json)
        return
    if out is None:
        raise typer.BadParameter(
            "it is needed, but for --dry-run and --write-map", param_hint="'--out'"
        )
    result = _carry_out(found, out, mapping, changes, where, as_json=as_json)
    if as_json:
        print_json(result)
    else:
        made = f"{counted(result['episodes'], 'episode')}, {counted(result['frames'], 'frame')}"
        print_line(f"{made} in {out}")


def _write_map(source: Path, mapping: ImportMap | None, changes: Changes, file: Path) -> None:
    if file.exists():
        raise typer.BadParameter(f"{str(file)!r} already exists", param_hint="'--write-map'")
    with open_recording(source, distro=changes.distro) as recording:
        plan = plan_import(recording, changed_map(recording, mapping, changes))
    write_atomically(file, map_to_toml(plan.mapping, unmapped=plan.unmapped))
    print_line(f"{len(plan.features)} features in {file}")


def _show(
    sources: list[Path], mapping: ImportMap | None, changes: Changes, *, as_json: bool
) -> None:
    """Print what would be made, and write nothing."""
    plans = []
    shared = first_map(sources[0], changes) if mapping is None and len(sources) > 1 else None
    for source in sources:
        with open_recording(source, distro=changes.distro) as recording:
            given = mapping or fitted_map(recording, shared)
            plans.append(plan_import(recording, changed_map(recording, given, changes)))
    if as_json:
        described: list[Any] = [{**plan.to_json(), "done": False} for plan in plans]
        print_json(described[0] if len(described) == 1 else described)
        return
    for plan in plans:
        _print(plan, several=len(plans) > 1)


def _print(plan: ImportPlan, *, several: bool) -> None:
    if several:
        print_line(f"{plan.path}:")
    for line in plan.lines():
        print_line(line)


def _carry_out(
    sources: list[Path],
    out: Path,
    mapping: ImportMap | None,
    changes: Changes,
    where: Where,
    *,
    as_json: bool,
) -> dict[str, Any]:
    root = writable_folder(out)
    if len(sources) > 1:
        done: dict[str, Any] = where.carry_out(plan_job(sources, root, mapping, changes), "import")
        return {**done, "done": True}
    with (
        open_recording(sources[0], distro=changes.distro) as recording,
        ProgressReport() as progress,
    ):
        plan = plan_import(recording, changed_map(recording, mapping, changes))
        if not as_json:
            _print(plan, several=False)
        made = write_dataset(
            recording, plan, root, on_progress=lambda now, all_: progress.show("Frames", now, all_)
        )
    return {
        **plan.to_json(),
        "path": str(root),
        "episodes": made.episodes,
        "frames": made.frames,
        "resumed_at": made.resumed_at,
        "done": True,
    }
