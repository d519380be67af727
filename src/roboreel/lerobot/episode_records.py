"""The episodes of a dataset as a table, under LeRobot's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from roboreel.errors import EpisodeNotFoundError, FeatureNotFoundError
from roboreel.format.episode_list import is_statistics
from roboreel.format.episode_table import episode_list
from roboreel.numbers import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roboreel.schema import Manifest


class EpisodeRecords(Sequence[dict[str, Any]]):
    """The episodes as a table: ``episodes[3]["length"]`` or ``episodes["length"][3]``.

    As in LeRobot, several episodes, ``episodes[:3]`` or ``episodes[[0, 2]]``, are a dict of lists.
    Methods and attributes of a `datasets.Dataset`, such as ``filter``, ``select``, ``to_pandas`` and
    ``num_rows``, are those of a copy that is made at their first use, and needs ``datasets``.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        episodes = manifest.episodes
        self._columns: dict[str, NDArray[Any]] = {
            "episode_index": episodes.number,
            "length": episodes.length,
            "dataset_from_index": episodes.start,
            "dataset_to_index": episodes.start + episodes.length,
        }
        for name, column in manifest.data_files.numbers.items():
            self._columns.setdefault(f"data/{name}", column[episodes.data_file])
        for camera, clips in episodes.clips.items():
            for name, column in manifest.video_files[camera].numbers.items():
                self._columns[f"videos/{camera}/{name}"] = column[clips.file]
            self._columns[f"videos/{camera}/from_timestamp"] = clips.start_s
            self._columns[f"videos/{camera}/to_timestamp"] = clips.stop_s

    @cached_property
    def _further(self) -> dict[str, list[Any]]:
        """Every other column that is stored, except statistics, which LeRobot leaves out too."""
        made = ("tasks", *self._columns)
        return episode_list(self._manifest).columns(
            lambda name: name not in made and not is_statistics(name)
        )

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return ["tasks", *self._columns, *self._further]

    @cached_property
    def _rows(self) -> Any:  # noqa: ANN401  # a datasets.Dataset
        import datasets

        return datasets.Dataset.from_dict({name: self._column(name) for name in self.column_names})

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        # Names with an underscore are looked up by pickle, copy and notebooks.
        if name.startswith("_") or find_spec("datasets") is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._rows, name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_rows"}

    def __len__(self) -> int:
        return len(self._manifest.episodes)

    def __getitem__(self, key: int | str | slice | Sequence[int]) -> Any:  # noqa: ANN401
        if isinstance(key, str):
            return self._column(key)
        picked = positions(key, len(self), "episode", error=EpisodeNotFoundError)
        if isinstance(picked, int):
            return self._record(picked)
        records = [self._record(place) for place in picked.tolist()]
        return {name: [record[name] for record in records] for name in self.column_names}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self._record(place) for place in range(len(self)))

    def _record(self, place: int) -> dict[str, Any]:
        numbers = {name: column[place].item() for name, column in self._columns.items()}
        further = {name: column[place] for name, column in self._further.items()}
        return {**numbers, **further, "tasks": list(self._manifest.episodes.tasks_of(place))}

    def _column(self, name: str) -> list[Any]:
        if name == "tasks":
            return [list(self._manifest.episodes.tasks_of(place)) for place in range(len(self))]
        if name not in self._columns and name in self._further:
            return list(self._further[name])
        if name not in self._columns:
            raise FeatureNotFoundError(
                f"The episodes have no {name!r}: there are {', '.join(self.column_names)}."
            )
        values: list[Any] = self._columns[name].tolist()
        return values
