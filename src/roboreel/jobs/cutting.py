"""Where work is cut into tasks: by files first, then by cost. Arithmetic only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TASK_S = 10.0
"""About how long a task should take one core: long beside what a task costs, short beside a run."""
_MOST_TASKS = 20_000


def target_cost(total_cost: float) -> float:
    """Return what a task should cost, so that there are not too many of them.

    Examples:
        >>> target_cost(300.0), target_cost(1e6)
        (10.0, 50.0)
    """
    return max(TASK_S, total_cost / _MOST_TASKS)


def cut(
    cost: NDArray[np.float64], group: NDArray[np.int64], target: float | None = None
) -> NDArray[np.int64]:
    """Return where to cut units that follow each other, such as episodes, into tasks.

    Units of one group, such as a file, stay together unless the group costs more than a task should.
    Small groups share a task. A task costs less than the target and one unit or group more.

    Args:
        cost: Cost of each unit, ``(N,)``, in seconds of one core.
        group: The group of each unit, ``(N,)``; units of a group follow each other.
        target: What a task should cost; by default see `target_cost`.

    Returns:
        Bounds ``(T + 1,)``: task t has units ``[bounds[t], bounds[t + 1])``.

    Examples:
        >>> cut(np.full(6, 4.0), np.array([0, 0, 1, 1, 2, 2]), 10.0)
        array([0, 4, 6])
        >>> cut(np.full(6, 5.0), np.zeros(6, np.int64), 10.0)
        array([0, 2, 4, 6])
    """
    if not len(cost):
        return np.zeros(1, np.int64)
    goal = target_cost(float(cost.sum())) if target is None else target
    before = np.concatenate([[0.0], np.cumsum(cost)])
    first = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    sizes = np.diff(first, append=len(cost))
    group_start = before[first]
    group_cost = np.diff(group_start, append=before[-1])
    is_large = group_cost > goal
    # A large group is cut by itself; small ones fill tasks of their own between large ones.
    shelf = np.cumsum(is_large | np.concatenate([[False], is_large[:-1]]))
    within = np.repeat(np.where(is_large, group_start, 0.0), sizes)
    place = np.where(np.repeat(is_large, sizes), before[:-1], np.repeat(group_start, sizes))
    step = ((place - within) // goal).astype(np.int64)
    changes = np.diff(step) != 0
    changes |= np.diff(np.repeat(shelf, sizes)) != 0
    inside = np.flatnonzero(changes) + 1
    return np.concatenate([[0], inside, [len(cost)]]).astype(np.int64)
