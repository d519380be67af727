"""Actions relative to where the robot is, with statistics of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.errors import FeatureNotFoundError
from roboreel.stats import Accumulator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roboreel.dataset.dataset import Dataset
    from roboreel.stats import FeatureStats
    from roboreel.window import Window

_SAMPLES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Relative:
    """Turns actions into differences from the state of the anchor, and back.

    Takes batches and single samples, of arrays or tensors. If the state has a window, the last
    step of it counts. Steps that are padded are turned as well; their mask stays.

    Examples:
        >>> relative = Relative("action", to="state", elements=[0])
        >>> batch = {"action": np.array([[3.0, 1.0]]), "state": np.array([[2.0, 5.0]])}
        >>> relative(batch)["action"]
        array([[1., 1.]])
    """

    feature: str = "action"
    to: str = "observation.state"
    elements: Sequence[int] | None = None
    """Elements that are turned, the same ones of both; by default all of the action. Leave out a
    gripper that is open or closed. Kept as a tuple."""

    def __post_init__(self) -> None:
        if self.elements is not None:
            object.__setattr__(self, "elements", tuple(map(int, self.elements)))

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with relative actions; the other features are passed on.

        Raises:
            FeatureNotFoundError: The batch lacks the action or the state.
            ValueError: An element is not one of both.
        """
        return self._moved(batch, -1)

    def undo(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch with actions as they were: the inverse of calling it."""
        return self._moved(batch, 1)

    def compute_stats(self, dataset: Dataset, window: Window | None = None) -> FeatureStats:
        """Return the statistics of the relative actions of a dataset or view.

        Steps of the window that leave the episode do not count. Give them to a `Normalize` in place
        of the dataset's own: ``{**dataset.stats, "action": relative.compute_stats(dataset, w)}``.
        """
        windows = {} if window is None else {self.feature: window}
        total = Accumulator(dataset.features[self.feature].value_shape)
        for start in range(0, len(dataset), _SAMPLES_AT_ONCE):
            some = np.arange(start, min(start + _SAMPLES_AT_ONCE, len(dataset)))
            batch = self(dataset.read(some, [self.feature, self.to], windows=windows))
            values = batch[self.feature]
            total.update(values if window is None else values[~batch[f"{self.feature}_is_pad"]])
        return total.finish()

    def _moved(self, batch: Mapping[str, Any], sign: int) -> dict[str, Any]:
        for name in (self.feature, self.to):
            if name not in batch:
                raise FeatureNotFoundError(
                    f"There is no {name!r} in the batch, which has {', '.join(batch)}. Relative "
                    f"actions need {self.feature!r} and {self.to!r}."
                )
        actions, state = batch[self.feature], batch[self.to]
        if f"{self.to}_is_pad" in batch:
            state = state[..., -1, :]
        if f"{self.feature}_is_pad" in batch:
            state = state[..., None, :]
        elements = self._checked(actions.shape, state.shape)
        # An array or a tensor, either of which may belong to somebody else.
        moved = actions.clone() if hasattr(actions, "clone") else actions.copy()
        moved[..., elements] += sign * state[..., elements]
        return {**batch, self.feature: moved}

    def _checked(self, actions: tuple[int, ...], state: tuple[int, ...]) -> list[int]:
        width = min(actions[-1] if actions else 0, state[-1] if state else 0)
        elements = range(actions[-1] if actions else 1) if self.elements is None else self.elements
        outside = [element for element in elements if not 0 <= element < width]
        if outside:
            raise ValueError(
                f"{self.feature!r} has the shape {tuple(actions)} and {self.to!r} {tuple(state)}: "
                f"there is no element {outside[0]} of both. Name those that are: elements=[0, 1, …]."
            )
        return list(elements)
