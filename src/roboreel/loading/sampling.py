"""The order in which a training run sees its samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from roboreel.dataset.mixture import Mixture
from roboreel.errors import EpisodeNotFoundError
from roboreel.numbers import one_number
from roboreel.order.order import (
    Local,
    LocalOrder,
    Sequential,
    Uniform,
    Weighted,
    spread_task_weights,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roboreel.dataset.dataset import Dataset
    from roboreel.dataset.members import Source
    from roboreel.order.order import Order

Shuffle: TypeAlias = "bool | Literal['uniform', 'local'] | Local"
"""How samples are shuffled: not at all; over the whole dataset (``True`` or ``"uniform"``); or so
that neighbours share decoding (``"local"``, which is ``Local()``, or `Local` with other sizes)."""

Weights: TypeAlias = "Mapping[int, float] | Mapping[str, float] | Sequence[float]"
"""Shares of episodes by number, of tasks by text, or of all episodes in their order."""


def make_order(
    source: Source,
    lengths: NDArray[np.int64],
    *,
    shuffle: Shuffle = False,
    seed: int = 0,
    weights: Weights | None = None,
) -> Order:
    """Return the order of an epoch.

    Args:
        source: Where the samples come from.
        lengths: Samples of each of its episodes, ``(E,)``.
        shuffle: How they are shuffled.
        seed: Different seeds give different orders.
        weights: Shares of episodes or tasks; needs a uniform shuffle.

    Raises:
        TypeError: The seed is not a whole number.
        ValueError: The shuffle is unknown, or does not go with the weights or the source.
    """
    count, seed = int(lengths.sum()), one_number(seed, "seed")
    if isinstance(shuffle, Local):
        local: Local | None = shuffle
    elif shuffle in (False, True, "uniform", "local"):
        local = Local() if shuffle == "local" else None
    else:
        raise ValueError(
            f"shuffle is {shuffle!r}: give False, True, 'uniform', 'local' or Local(block=…, "
            "buffer=…)."
        )
    if weights is not None and (local is not None or not shuffle):
        raise ValueError(
            f"Weighted samples are drawn from the whole dataset, but shuffle is {shuffle!r}: "
            "use shuffle='uniform'."
        )
    if not shuffle:
        return Sequential(count)
    if isinstance(source, Mixture):
        if local is not None or weights is not None:
            raise ValueError("A mixture is drawn from by its own weights: use shuffle='uniform'.")
        per_dataset = source.samples_per_dataset(lengths)
        return Weighted(per_dataset, source.weights, num_samples=count, seed=seed)
    if weights is not None:
        if not hasattr(source, "selection"):
            raise ValueError(
                "Weights are those of episodes or tasks of a dataset. Mix stores and buffers with "
                "roboreel.Mixture to weigh them."
            )
        shares = weigh_episodes(cast("Dataset", source), lengths, weights)
        return Weighted(lengths, shares, num_samples=count, seed=seed)
    return Uniform(count, seed=seed) if local is None else LocalOrder(count, local, seed)


def weigh_episodes(
    dataset: Dataset,
    lengths: NDArray[np.int64],
    weights: Weights,
) -> NDArray[np.float64]:
    """Return the weight of each episode, ``(E,)``, in the order of its samples.

    Args:
        dataset: The dataset or view that they are episodes of.
        lengths: Samples of each episode, ``(E,)``.
        weights: By episode number, by task (an episode counts towards its first task), or one for
            each of ``dataset.episodes``. What a mapping leaves out has weight 0.

    Raises:
        EpisodeNotFoundError: A weight is given for an episode that is not there.
        LookupError: A weight is given for a task that no episode has.
        ValueError: There is not one weight for each episode.
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
            f"There is a weight for episode {unknown[0]!r}, which is not one of the "
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
