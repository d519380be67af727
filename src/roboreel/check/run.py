"""Running checks, from the cheapest tier to the dearest, and gathering what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check import (
    columns,
    computed,
    content,
    images,
    statistics,
    structure,
    tables,
    time,
    video,
)
from roboreel.check.context import Context
from roboreel.check.ledger import Ledger, needed_tier, select_codes
from roboreel.check.scanning import PASS_CODES, scan_rows
from roboreel.check.structure import pointer_finding
from roboreel.errors import (
    DatasetError,
    NotADatasetError,
    RemoteError,
    UnfinishedChangeError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.findings import TIERS, finding
from roboreel.format import read_manifest
from roboreel.format.hub import dataset_folder
from roboreel.format.paths import INFO_PATH
from roboreel.io.lfs import is_lfs_pointer
from roboreel.io.sources import forget_failures, look_for, raise_failure, source_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from roboreel.check.checks import Check, Outcome, Scan
    from roboreel.check.result import Findings
    from roboreel.findings import Finding, Tier

# A module of checks has a tuple CHECKS, one of scans a tuple SCANS. To add a module, import it and
# add a line.
CHECKS: tuple[Check, ...] = (
    *structure.CHECKS,
    *statistics.CHECKS,
    *video.CHECKS,
    *images.CHECKS,
)
SCANS: tuple[type[Scan], ...] = (
    *tables.SCANS,
    *columns.SCANS,
    *time.SCANS,
    *computed.SCANS,
    *content.SCANS,
)


def check_dataset(
    path: str | os.PathLike[str],
    *,
    tier: Tier | None = None,
    only: Sequence[str] = (),
    ignore: Sequence[str] = (),
    episodes: Sequence[int] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Findings:
    """Return everything that is wrong with a dataset. Nothing is changed.

    Args:
        path: The dataset's folder, or its address.
        tier: What to read, with all that is cheaper: ``"metadata"``, ``"numbers"`` (every row),
            ``"index"`` (the packet tables of the videos) or ``"deep"`` (every image). By default
            ``"index"``, or what the codes of ``only`` need.
        only: Codes, or beginnings of codes, to look for: ``["RR5", "RR101"]``.
        ignore: Codes, or beginnings of codes, not to look for.
        episodes: Numbers of the episodes to check; all when not given.
        on_progress: Called with what is being read, how much of it is done, and how much there is.

    Raises:
        NotADatasetError: There is no dataset at this path.
        UnfinishedChangeError: A change was decided and not finished.
        EpisodeNotFoundError: A number that no episode has.
        ValueError: No rule has such a code.
    """
    tier = tier or needed_tier(only)
    ledger = Ledger(select_codes(only, ignore), tier)
    root = dataset_folder(path)
    forget_failures(root)
    try:
        manifest = read_manifest(root)
    except (NotADatasetError, RemoteError, UnfinishedChangeError):
        raise
    except DatasetError as error:
        ledger.add([_unopenable(error, root)])
        ledger.give_up("The metadata cannot be read.")
        return ledger.close(root)
    if source_of(root) is not None:
        named = [manifest.data_files, *manifest.video_files.values()]
        look_for(root, [name for files in named for name in files.paths()])
    context = Context(manifest, episodes=episodes, on_progress=on_progress)
    findings = check_context(context, ledger, tier)
    raise_failure(root)  # What could not be fetched is no finding.
    return findings


def check_context(context: Context, ledger: Ledger, tier: Tier) -> Findings:
    """Return what all checks up to a tier find; what a job has gathered is not read again."""
    for level in TIERS[: TIERS.index(tier) + 1]:
        if level == "numbers":
            _scan(context, ledger)
        for check in CHECKS:
            is_wanted = ledger.wants((*check.codes, *check.also))
            if check.tier == level and is_wanted and check.applies(context):
                ledger.run(check.codes, lambda check=check: check.run(context))  # type: ignore[misc]
    return ledger.close(context.root, context)


def wanted_scans(ledger: Ledger) -> tuple[list[type[Scan]], bool] | None:
    """Return the scans that are asked for, and whether to read all values; None if none is."""
    scans = [scan for scan in SCANS if ledger.wants(scan.codes)]
    if not ledger.wants([*PASS_CODES, *(code for scan in scans for code in scan.codes)]):
        return None
    # Whether a part cannot be read is seen by reading it.
    return scans, ledger.wants(("RR213",))


def _scan(context: Context, ledger: Ledger) -> None:
    wanted = wanted_scans(ledger)
    if wanted is not None:
        kinds, reads = wanted
        codes = [*PASS_CODES, *(code for scan in kinds for code in scan.codes)]
        ledger.run(codes, lambda: _scanned(context, [kind(context) for kind in kinds], reads))


def _scanned(context: Context, scans: list[Scan], reads_values: bool) -> Iterator[Outcome]:
    if context.gathered is None:
        yield from scan_rows(context, scans, reads_values=reads_values)
        return
    for part in context.gathered.rows():
        yield from part["outcomes"]
        for scan in scans:
            scan.merge(part["states"][type(scan).__name__])
    for scan in scans:
        yield from scan.finish()


def _unopenable(error: DatasetError, root: Path) -> Finding:
    """Return the finding that says why a dataset cannot be opened at all."""
    file = _file_in(str(error), root)
    if file is not None and is_lfs_pointer(root / file):
        return pointer_finding(file)
    if isinstance(error, UnsafePathError):
        return finding("RR108", str(error), file=INFO_PATH)
    if isinstance(error, UnsupportedVersionError):
        return finding("RR102", str(error), severity="error", file=file or INFO_PATH)
    return finding("RR111", str(error), file=file)


def _file_in(message: str, root: Path) -> str | None:
    """Return the file that an error is about: its path is the last thing that ours quote."""
    start = message.rfind(str(root))
    if start < 0:
        return None
    return message[start + len(str(root)) :].split("'")[0].strip("/\\").replace("\\", "/") or None
