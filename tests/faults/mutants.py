"""Faults that are put into the commit on purpose: the rig must find each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from roboreel.commit import carry_out, prepare, steps
from roboreel.format.paths import INFO_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roboreel.commit.steps import Decision, Step
    from tests.faults.scenario import Say, Scenario

__all__ = ["MUTANTS", "mutated"]


def mutated(scenario: Scenario, mutant: str) -> Scenario:
    """Return a scenario whose writer has a fault; the process that checks has none."""

    def run(folder: Path, say: Say) -> None:
        MUTANTS[mutant]()
        scenario.run(folder, say)

    return replace(scenario, run=run, name=f"{scenario.name}, {mutant}")


def _reorder(order: Callable[[Sequence[Step]], Sequence[Step]]) -> None:
    """Write steps down in another order."""
    write = steps.write_decision

    def write_mutated(folder: Path, decision: Decision) -> Path:
        return write(folder, replace(decision, steps=order(decision.steps)))

    vars(prepare)["write_decision"] = write_mutated


def _reverse() -> None:
    _reorder(lambda steps: list(steps)[::-1])


def _info_first() -> None:
    _reorder(lambda steps: sorted(steps, key=lambda step: step.target != INFO_PATH))


def _no_sync_around_the_index() -> None:
    """Sync before the first step and after the last, and nowhere between."""
    do, sync = carry_out._Carrying._do, carry_out._Carrying._sync
    done: list[Step] = []

    def counted(self: Any, step: Step) -> None:
        do(self, step)
        done.append(step)

    def lazy(self: Any) -> None:
        if len(done) in (0, len(self._decision.steps)):
            sync(self)
            done.clear()

    carry_out._Carrying._do = counted  # type: ignore[method-assign]
    carry_out._Carrying._sync = lazy  # type: ignore[method-assign]


def _not_named_twice() -> None:
    carry_out._Carrying._name_twice = lambda *_: False  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "steps in reverse": _reverse,
    "info.json first": _info_first,
    "no sync around the index": _no_sync_around_the_index,
    "old files not named twice": _not_named_twice,
}
