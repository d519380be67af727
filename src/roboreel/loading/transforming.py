"""Transforms of samples and batches, and the generators that they draw from."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.order.permutation import make_key, scramble

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Keys of their own: a transform must not draw what the order of the samples was drawn from.
_OF_SAMPLES, _OF_BATCHES = 0x5A17, 0xBA7C


class Transform:
    """A function of the user, called with a generator as well if it takes one.

    Args:
        function: Called with a sample or a batch, and perhaps a generator.
        make_generator: Returns the generator of a seed.
    """

    def __init__(self, function: Callable[..., Any], make_generator: Callable[[int], Any]) -> None:
        self._function = function
        self._make_generator = make_generator if takes_generator(function) else None

    def __call__(self, value: Any, seed: int) -> Any:  # noqa: ANN401  # what the user makes of it
        """Return what the function makes of a sample or a batch."""
        if self._make_generator is None:
            return self._function(value)
        return self._function(value, self._make_generator(seed))


def takes_generator(function: Callable[..., Any]) -> bool:
    """Whether a transform has a second argument: one that is required, or is called ``rng``."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # Written in C, without a signature.
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = [one for one in parameters if one.kind in places][1:2]
    return any(one.default is inspect.Parameter.empty or one.name == "rng" for one in second)


def sample_seeds(
    seed: int, epoch: int, positions: NDArray[np.int64], *, of_batch: bool = False
) -> NDArray[np.uint64]:
    """Return the seeds of the samples at some positions of an epoch, ``(N,)``, or of batches there.

    They do not depend on ranks, threads or where a run was resumed.
    """
    key = make_key(seed, epoch, _OF_BATCHES if of_batch else _OF_SAMPLES)
    return scramble(key, positions.astype(np.uint64))
