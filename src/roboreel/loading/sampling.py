"""From what a training run asks for to the order in which it sees samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import numpy as np

from roboreel.dataset.mixture import Mixture
from roboreel.errors import EpisodeNotFoundError
from roboreel.order.order import Local, Sequential, Uniform, Weighted, spread_task_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset
    from roboreel.order.order import Order
    from roboreel.sample_spec import SampleSpec
    from roboreel.schema import Feature

__all__ = ["Shuffle", "Source", "Weights", "make_order", "weigh_episodes"]

Shuffle = Literal[False, "uniform", "local"]
"""How samples are mixed: not at all, over the whole dataset, or so that neighbours share reading."""

Weights: TypeAlias = "Mapping[int, float] | Mapping[str, float] | Sequence[float]"
"""Shares of episodes by number, of tasks by text, or of all episodes in their order."""


class Source(Protocol):
    """Where samples come from: a `Dataset`, a view of one, or a `Mixture` of several."""

    def __len__(self) -> int: ...

    @property
    def features(self) -> Mapping[str, Feature]:
        """What every sample has, by name."""

    @property
    def episode_bounds(self) -> NDArray[np.int64]:
        """Samples of the i-th episode are ``[bounds[i], bounds[i + 1])``, ``(E + 1,)``."""

    def read(self, samples: NDArray[np.int64], spec: SampleSpec, /) -> dict[str, Any]:
        """Return a batch of samples as a dict of arrays."""


def make_order(
    source: Source,
    lengths: NDArray[np.int64],
    *,
    shuffle: Shuffle = False,
    seed: int = 0,
    weights: Weights | None = None,
    block: int = 32,
    buffer: int = 16,
) -> Order:
    """Return the order of an epoch.

    Args:
        source: Where samples come from.
        lengths: Samples of each of its episodes, ``(E,)``.
        shuffle: How they are mixed.
        seed: Another seed, another order.
        weights: Shares of episodes or tasks; needs ``shuffle="uniform"``.
        block: Of ``"local"``: neighbours that are visited together.
        buffer: Of ``"local"``: blocks that are mixed with each other.

    Raises:
        ValueError: The arguments contradict each other.
    """
    count = int(lengths.sum())
    if shuffle not in (False, "uniform", "local"):
        raise ValueError(f"shuffle is False, 'uniform' or 'local', not {shuffle!r}.")
    if weights is not None and shuffle != "uniform":
        raise ValueError(
            f"Weighted samples are drawn from the whole dataset, and shuffle is {shuffle!r}: "
            "say shuffle='uniform'."
        )
    if not shuffle:
        return Sequential(count)
    if isinstance(source, Mixture):
        if shuffle == "local" or weights is not None:
            raise ValueError("A mixture is drawn from by its own weights: say shuffle='uniform'.")
        per_dataset = source.samples_per_dataset(lengths)
        return Weighted(per_dataset, source.weights, num_samples=count, seed=seed)
    if weights is not None:
        shares = weigh_episodes(cast("Dataset", source), lengths, weights)
        return Weighted(lengths, shares, num_samples=count, seed=seed)
    if shuffle == "local":
        return Local(count, block=block, buffer=buffer, seed=seed)
    return Uniform(count, seed=seed)


def weigh_episodes(
    dataset: Dataset,
    lengths: NDArray[np.int64],
    weights: Weights,
) -> NDArray[np.float64]:
    """Return the weight of each episode, ``(E,)``, in the order of its samples.

    Args:
        dataset: The dataset or view that they are episodes of.
        lengths: Samples of each episode, ``(E,)``.
        weights: By episode number, by task (an episode counts to its first task), or one for each
            of ``dataset.episodes``. What a mapping does not name has no weight.

    Raises:
        EpisodeNotFoundError: A weight of an episode that is not there.
        LookupError: A weight of a task that no episode has.
        ValueError: Not one weight for each episode.
    """
    filled = dataset.selection.filled
    if not isinstance(weights, Mapping):
        given = np.asarray(weights, np.float64)
        if given.shape != (len(dataset.episodes),):
            raise ValueError(
                f"One weight for each of {len(dataset.episodes)} episodes is needed; "
                f"the weights have the shape {given.shape}."
            )
        return given[np.searchsorted(dataset.selection.positions, filled)]
    if all(isinstance(key, str) for key in weights):
        return _weigh_tasks(dataset, lengths, cast("Mapping[str, float]", weights))
    numbers = dataset.manifest.episodes.number[filled]
    unknown = [number for number in weights if number not in numbers]
    if unknown:
        raise EpisodeNotFoundError(
            f"There is a weight for episode {unknown[0]!r}, which is not among the "
            f"{len(numbers)} episodes with frames of {dataset!r}."
        )
    return np.asarray([weights.get(number, 0.0) for number in numbers.tolist()], np.float64)


def _weigh_tasks(
    dataset: Dataset, lengths: NDArray[np.int64], weights: Mapping[str, float]
) -> NDArray[np.float64]:
    table = dataset.manifest.episodes
    firsts = [" ".join(table.tasks_of(position)[:1]) for position in dataset.selection.filled]
    texts = list(dict.fromkeys(firsts))
    unknown = [text for text in weights if text not in texts]
    if unknown:
        known = ", ".join(repr(text) for text in texts[:10])
        raise LookupError(f"No episode has the task {unknown[0]!r}: there are {known}.")
    codes = np.asarray([texts.index(text) for text in firsts], np.int64)
    shares = np.asarray([weights.get(text, 0.0) for text in texts], np.float64)
    return spread_task_weights(shares, codes, lengths)
