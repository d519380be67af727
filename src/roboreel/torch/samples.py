"""Samples of a dataset as tensors, one by one or in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import default_collate

from roboreel.loading.samples import Sample, Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


class SampleDataset(Samples, TorchDataset):  # type: ignore[misc]  # torch is untyped to us
    """The samples of a dataset, a view or a mixture, as tensors: map style, for any DataLoader.

    ``samples[5]`` is one sample; ``samples[0:8]`` and ``samples[[3, 1]]`` are batches, as `read`
    returns them. It may be pickled and forked at any time; a pickle holds a path and a selection.

    Args:
        dataset: A `roboreel.Dataset`, a view of one, a `roboreel.Mixture`, a
            `roboreel.shards.Store` or a `roboreel.ReplayBuffer`.
        windows: Windows by feature, which then comes as ``(T, …)`` with a mask
            ``"<name>_is_pad"``; or a `roboreel.SampleSpec` in place of ``windows``, ``features``,
            ``image_size`` and ``layout``.
        features: Names of the features to read; by default all of them, and ``"task"``.
        image_size: Height and width to scale images to; by default the stored size.
        layout: Order of the axes of images, ``"chw"`` (the default) or ``"hwc"``.
        drop_n_last_frames: Frames at the end of each episode that anchor no sample.
        transform: Called with every single sample, in the thread or process that read it. If it
            has a second argument, that is a `torch.Generator`. `Loader` seeds it by the position of
            the sample; a DataLoader and ``samples[5]`` seed it from torch's global generator.

    Raises:
        TypeError: The dataset is not one, or a spec is given together with parts of one.
        WindowError: The offsets of a window are not integers, or there are none.
        ValueError: An argument is out of range.
    """

    def __getitems__(self, samples: Sequence[int] | NDArray[np.int64]) -> list[Sample]:
        """Return several samples that were read at once; a DataLoader calls this."""
        return self._singles(self._numbers(samples))

    def make_generator(self, seed: int) -> torch.Generator:
        """Return the generator that a transform is called with."""
        return make_generator(seed)

    @property
    def reducers(self) -> Mapping[type[Any], Callable[[Any], Any]]:
        """How tensors are pickled, as the arrays that share their memory."""
        return {torch.Tensor: _reduce}

    def enter_worker(self) -> None:
        """Leave the cores of a process that does nothing but read these samples to decoding."""
        torch.set_num_threads(1)

    def _random_seeds(self, count: int) -> NDArray[np.uint64]:
        # In the workers of a DataLoader, torch has seeded its global generator differently.
        seeds: NDArray[np.int64] = torch.empty(count, dtype=torch.int64).random_().numpy()
        return seeds.astype(np.uint64)

    def _convert(self, batch: Mapping[str, Any]) -> Sample:
        return as_tensors(batch)

    def _split(self, batch: Sample, count: int) -> list[Sample]:
        columns = {
            name: values.unbind() if isinstance(values, torch.Tensor) else values
            for name, values in batch.items()
        }
        return super()._split(columns, count)

    def _collate(self, samples: list[Sample]) -> Sample:
        collated: Sample = default_collate(samples)
        return collated


def make_generator(seed: int) -> torch.Generator:
    """Return torch's generator of a seed."""
    return torch.Generator().manual_seed(seed)


def as_tensors(batch: Mapping[str, Any]) -> Sample:
    """Return arrays as tensors that share their memory; texts become lists."""
    return {name: _as_tensor(values) for name, values in batch.items()}


def _as_tensor(values: Any) -> Any:  # noqa: ANN401  # an array or a list of texts
    if isinstance(values, list):
        return values
    if values.dtype == object:
        return values.tolist()
    return torch.from_numpy(values)


def _reduce(tensor: torch.Tensor) -> Any:  # noqa: ANN401  # what pickle takes
    """Return how a tensor is pickled: as an array, if that is all there is to it."""
    is_plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if is_plain and not tensor.requires_grad and not tensor.is_conj() and not tensor.is_neg():
        try:
            return torch.from_numpy, (tensor.contiguous().numpy(),)
        except TypeError:  # NumPy has no such dtype.
            if tensor.dtype is torch.bfloat16:
                return _bfloat16, (tensor.contiguous().view(torch.int16).numpy(),)
    return tensor.__reduce_ex__(2)


def _bfloat16(bits: NDArray[np.int16]) -> torch.Tensor:
    return torch.from_numpy(bits).view(torch.bfloat16)
