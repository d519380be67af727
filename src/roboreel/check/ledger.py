"""The account of a run: what was asked for, what was found, and what could not be checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roboreel.check.checks import NotChecked
from roboreel.check.result import Findings
from roboreel.errors import DatasetError
from roboreel.findings import RULES, TIERS, Finding, Tier, finding
from roboreel.format.counters import EPISODE_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from roboreel.check.checks import Outcome
    from roboreel.check.context import Context


_NOT_CHECKED = "RR001"
_NOT_ASKED = "Not asked for."
_DOES_NOT_APPLY = "Does not apply to this dataset."
NEEDS_TIER = "Needs --tier"
ROUTINE = (_NOT_ASKED, _DOES_NOT_APPLY, NEEDS_TIER)
"""How reasons begin that are no cause for concern."""


class Ledger:
    """Gathers findings, and knows of each rule whether it was checked.

    Args:
        codes: The codes that are asked for.
        tier: The dearest tier that may be read.
    """

    def __init__(self, codes: Sequence[str], tier: Tier) -> None:
        self.tier: Tier = tier
        affordable = TIERS[: TIERS.index(tier) + 1]
        self._selected = frozenset((*codes, _NOT_CHECKED))
        self._asked = [code for code in codes if RULES[code].tier in affordable]
        decided = {*_OF_ROWS, *_STATISTICS}.intersection(codes)
        # Looked for too: beside them, what is asked for cannot be repaired.
        self._deciding = [c for c in _DECIDING if decided and RULES[c].tier in affordable]
        self._aside: list[Finding] = []
        self._found: list[Finding] = []
        self._checked: set[str] = set()
        self._missed = {
            code: f"{NEEDS_TIER} {RULES[code].tier}." if code in codes else _NOT_ASKED
            for code in RULES
            if code not in self._asked and code != _NOT_CHECKED
        }

    def wants(self, codes: Iterable[str]) -> bool:
        """Return whether any of these codes is asked for."""
        return any(code in self._asked or code in self._deciding for code in codes)

    def run(self, codes: Sequence[str], check: Callable[[], Iterable[Outcome]]) -> None:
        """Run a check; an error of ours is the finding that its codes were not checked."""
        asked = [code for code in dict.fromkeys(codes) if self.wants([code])]
        self._checked.update(code for code in asked if code in self._asked)
        try:
            self.add(check())
        except (DatasetError, OSError) as error:
            for code in asked:
                self._missed.setdefault(code, str(error))
            self._found.append(
                finding(_NOT_CHECKED, f"Could not check {', '.join(asked)}: {error}")
            )

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Take in what a check yields; what was not asked for is left out."""
        for outcome in outcomes:
            if isinstance(outcome, NotChecked):
                self._missed.setdefault(outcome.code, outcome.reason)
            elif outcome.code in self._selected:
                self._found.append(outcome)
            elif outcome.code in self._deciding:
                self._aside.append(outcome)

    def give_up(self, reason: str) -> None:
        """Take note that nothing else can be checked."""
        for code in self._asked:
            if code != _NOT_CHECKED:
                self._missed.setdefault(code, reason)

    def close(self, root: Path, context: Context | None = None) -> Findings:
        """Return the result. Findings about episodes that are not wanted are left out."""
        for code in self._asked:
            if code not in self._checked and code != _NOT_CHECKED:
                self._missed.setdefault(code, _DOES_NOT_APPLY)
        if context is not None and not context.manifest.cameras:
            for code, reason in self._missed.items():
                if reason.startswith(NEEDS_TIER) and RULES[code].tier in ("index", "deep"):
                    self._missed[code] = _DOES_NOT_APPLY
        found = self._found
        if context is not None:
            found = [one for one in map(context.with_episodes, found) if _is_wanted(one, context)]
        # That no episode uses a file is said by its name, before its rows are known.
        used = {one.file for one in found if one.code == _OWNERS}
        found = [one for one in found if one.code != "RR105" or one.file not in used]
        found.sort(key=_place)
        return Findings(
            root=root,
            tier=self.tier,
            found=tuple(settle_fixable(dict.fromkeys(found), self._aside)),
            checked=tuple(code for code in RULES if code in self._checked - self._missed.keys()),
            not_checked={code: self._missed[code] for code in RULES if code in self._missed},
        )


def _place(found: Finding) -> tuple[str, int, str, str]:
    episode = -1 if found.episode is None else found.episode
    return found.code, episode, found.file or "", found.feature or ""


def _is_wanted(found: Finding, context: Context) -> bool:
    if context.is_whole or found.episode is None:
        return True
    episodes = context.manifest.episodes
    return bool(found.episode in episodes.number[context.wanted])


# Which findings can be repaired, in view of all others.

_OWNERS = "RR204"
_OF_ROWS = ("RR202", "RR205", "RR206", "RR207", "RR209")
_STATISTICS = ("RR111", "RR501", "RR502", "RR503", "RR504", "RR505", "RR506")
_UNREADABLE = ("RR104", "RR107", "RR201", "RR210", "RR211", "RR212", "RR213")
_NAMELESS = "RR115"
_DECIDING = ("RR104", "RR107", _NAMELESS, "RR201", _OWNERS)


def settle_fixable(findings: Iterable[Finding], aside: Sequence[Finding] = ()) -> list[Finding]:
    """Return findings that say of themselves whether they can be repaired.

    A repair needs to know what is true. Where rows belong to no certain episode, nothing about them
    can be counted, and where values cannot be read, their statistics cannot be computed.

    Args:
        findings: What was asked for.
        aside: What was not, but decides about it.
    """
    found = list(findings)
    known = [*found, *aside]
    unclear = any(one.code == _OWNERS for one in known)
    nameless = any(one.code == _NAMELESS for one in known)
    lost = any(_hides_rows(one) for one in known)
    unreadable = {one.feature for one in known if one.code in _UNREADABLE and one.feature}
    blocked = {
        one
        for one in found
        if one.fixable
        and (
            (unclear and one.code in (*_OF_ROWS, *_STATISTICS))
            or (nameless and one.code in ("RR207", "RR209"))
            or (lost and _needs_values(one))
            or (_needs_values(one) and one.feature in unreadable)
        )
    }
    return [replace(one, fixable=False) if one in blocked else one for one in found]


def _hides_rows(found: Finding) -> bool:
    """Whether rows of all features cannot be read, and will not be."""
    is_data = found.file is not None and found.file.endswith(".parquet")
    return (
        found.code in ("RR104", "RR107", "RR201")
        and is_data
        and not found.fixable
        and found.feature in (None, EPISODE_NUMBER)
    )


def _needs_values(found: Finding) -> bool:
    return found.code in _STATISTICS and not (
        found.code == "RR111" and "tasks" in (found.file or "")
    )


# Codes as they are asked for: whole, or by their beginnings.

DEFAULT_TIER: Tier = "index"


def select_codes(only: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[str]:
    """Return the codes that are asked for, in their order.

    Examples:
        >>> select_codes(only=["RR50", "101"], ignore=["RR506"])
        ['RR101', 'RR501', 'RR502', 'RR503', 'RR504', 'RR505']

    Raises:
        ValueError: No rule has such a code.
    """
    wanted = {code for text in only for code in _codes(text)} if only else set(RULES)
    ignored = {code for text in ignore for code in _codes(text)}
    return [code for code in RULES if code in wanted - ignored]


def needed_tier(only: Sequence[str]) -> Tier:
    """Return the tier that codes need if they are spelled out; otherwise the default."""
    spelled = [RULES[code].tier for text in only for code in _codes(text) if code == _full(text)]
    return max([DEFAULT_TIER, *spelled], key=TIERS.index)


def _codes(text: str) -> list[str]:
    codes = [code for code in RULES if code.startswith(_full(text))]
    if not codes:
        raise ValueError(
            f"No rule has the code {text!r}: there are {next(iter(RULES))} to {list(RULES)[-1]}. "
            f"See docs/checking.md."
        )
    return codes


def _full(text: str) -> str:
    """Return a code as it is written in the list: ``5xx`` and ``rr5`` are ``RR5``."""
    return "RR" + text.strip().upper().removeprefix("RR").rstrip("X")
