"""Running checks, from the cheapest tier to the dearest, and gathering what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roboreel.check.context import Context
from roboreel.check.registry import CHECKS
from roboreel.check.result import Findings
from roboreel.check.selection import needed_tier, select_codes
from roboreel.errors import (
    DatasetError,
    NotADatasetError,
    UnsafePathError,
    UnsupportedVersionError,
)
from roboreel.findings import RULES, TIERS, Finding, Tier, finding
from roboreel.format import read_manifest
from roboreel.format.hub import dataset_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from roboreel.check.checks import Check

__all__ = ["check_dataset"]


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
        path: The dataset's folder, or its address on the Hub if it is on this machine.
        tier: What to read, with all that is cheaper: ``"metadata"``, ``"numbers"`` (every row),
            ``"index"`` (the packet tables of the videos) or ``"deep"`` (every image). By default
            ``"index"``, or what the codes of ``only`` need.
        only: Codes, or beginnings of codes, to look for: ``["RR5", "RR101"]``.
        ignore: Codes, or beginnings of codes, not to look for.
        episodes: Numbers of the episodes to check; all when not given.
        on_progress: Called with what is being read, how much of it is done, and how much there is.

    Raises:
        NotADatasetError: There is no dataset at this path.
        EpisodeNotFoundError: A number that no episode has.
        ValueError: No rule has such a code.
    """
    codes = select_codes(only, ignore)
    tier = tier or needed_tier(only)
    ledger = _Ledger(codes, tier)
    root = dataset_folder(path)
    try:
        manifest = read_manifest(root)
    except NotADatasetError:
        raise
    except DatasetError as error:
        ledger.add([_unopenable(error, root)])
        for code in ledger.asked:
            ledger.miss(code, "The metadata cannot be read.")
        return ledger.close(root)
    context = Context(manifest, episodes=episodes, on_progress=on_progress)
    for check in sorted(CHECKS, key=lambda check: TIERS.index(check.tier)):
        if ledger.wants(check):
            ledger.run(check, context)
    return ledger.close(root, context)


class _Ledger:
    """What was asked for, what was found, and what could not be checked."""

    def __init__(self, codes: Sequence[str], tier: Tier) -> None:
        self.tier = tier
        affordable = TIERS[: TIERS.index(tier) + 1]
        self.asked = [code for code in codes if RULES[code].tier in affordable]
        self._found: list[Finding] = []
        self._missed = {
            code: "Not asked for." if code not in codes else f"Needs --tier {RULES[code].tier}."
            for code in RULES
            if code not in self.asked and code != "RR001"
        }
        self._checked: set[str] = set()

    def wants(self, check: Check) -> bool:
        is_affordable = TIERS.index(check.tier) <= TIERS.index(self.tier)
        return is_affordable and any(code in self.asked for code in check.codes)

    def run(self, check: Check, context: Context) -> None:
        codes = [code for code in check.codes if code in self.asked]
        self._checked.update(codes)
        self.add(self._guarded(check.run(context), codes))

    def add(self, findings: Iterable[Finding]) -> None:
        for found in findings:
            if found.code in self.asked or found.code == "RR001":
                self._found.append(found)

    def miss(self, code: str, reason: str) -> None:
        self._missed.setdefault(code, reason)

    def close(self, root: Path, context: Context | None = None) -> Findings:
        for code in self.asked:
            if code not in self._checked and code != "RR001":
                self.miss(code, "Nothing checks this yet.")
        found = [one for one in self._found if context is None or _is_wanted(one, context)]
        found.sort(key=lambda one: (one.code, -1 if one.episode is None else one.episode))
        return Findings(
            root=root,
            tier=self.tier,
            found=tuple(dict.fromkeys(found)),
            checked=tuple(code for code in RULES if code in self._checked - self._missed.keys()),
            not_checked={code: self._missed[code] for code in RULES if code in self._missed},
        )

    def _guarded(self, findings: Iterable[Finding], codes: Sequence[str]) -> Iterator[Finding]:
        """Pass findings on; an error is the finding that the codes were not checked."""
        try:
            yield from findings
        except (DatasetError, OSError) as error:
            for code in codes:
                self.miss(code, str(error))
            yield finding("RR001", f"Could not check {', '.join(codes)}: {error}")


def _is_wanted(found: Finding, context: Context) -> bool:
    if context.is_whole or found.episode is None:
        return True
    episodes = context.manifest.episodes
    return bool(found.episode in episodes.number[context.wanted])


def _unopenable(error: DatasetError, root: Path) -> Finding:
    """Return the finding that says why a dataset cannot be opened at all."""
    if isinstance(error, UnsafePathError):
        return finding("RR108", str(error), file="meta/info.json")
    if isinstance(error, UnsupportedVersionError):
        return finding("RR102", str(error), severity="error", file="meta/info.json")
    return finding("RR111", str(error), file=_file_in(str(error), root))


def _file_in(message: str, root: Path) -> str | None:
    """Return the file that an error is about: its path is the last thing that ours quote."""
    start = message.rfind(str(root))
    if start < 0:
        return None
    return message[start + len(str(root)) :].split("'")[0].strip("/\\").replace("\\", "/") or None
