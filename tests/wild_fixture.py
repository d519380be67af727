"""What a wild dataset is: one that other writers left in the world, and what is true about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tests.clean import CAMERAS, NUM_ROWS, VERSIONS, shown, task_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

V2 = ("v2.0", "v2.1")
V3 = ("v3.0",)


@dataclass(frozen=True)
class Truth:
    """What a right reader returns for each row of the dataset; None where it must raise."""

    rows: tuple[int | None, ...] = tuple(range(NUM_ROWS))
    """``observation.state[0]`` of each row."""
    images: Mapping[str, tuple[int | None, ...]] = field(
        default_factory=lambda: {
            camera: tuple(shown(camera, range(NUM_ROWS))) for camera in CAMERAS
        }
    )
    """What `number_of` reads in the image of each row, by camera that can be read."""
    tasks: tuple[str | None, ...] = tuple(map(task_of, range(NUM_ROWS)))
    """The task of each row; an empty text if it has none, None if reading must raise."""
    refusable: frozenset[int] = frozenset()
    """Rows that share a file or an episode with the damage: an error is right for them too."""
    opens: bool = True
    """Whether the dataset can be opened; otherwise nothing else holds."""
    says: tuple[str, ...] = ()
    """What the error that must be raised says, in these words among others."""


@dataclass(frozen=True)
class Wild:
    """A kind of dataset that other writers left in the world."""

    name: str
    point: str
    """The point of the issue that asks for it."""
    write: Callable[[Path, str], Truth]
    versions: tuple[str, ...] = VERSIONS

    def make(self, root: Path, version: str) -> Truth:
        """Write the dataset to a folder that does not exist yet, and return what is true."""
        return self.write(root, version)

    def __str__(self) -> str:
        return self.name


def wild(
    point: str, *, versions: tuple[str, ...] = VERSIONS
) -> Callable[[Callable[[Path, str], Truth]], Wild]:
    """Make a `Wild` out of the function that writes it, whose name becomes its own."""

    def make(write: Callable[[Path, str], Truth]) -> Wild:
        return Wild(write.__name__.replace("_", "-"), point, write, versions)

    return make


def without(
    lost: Iterable[int], *, refusable: Iterable[int] = (), says: tuple[str, ...] = ()
) -> Truth:
    """Return the truth of a clean dataset whose data files have lost some rows.

    Their images are there. A reader may return them, or need the lost rows to tell which they are.
    """
    clean, lost = Truth(), frozenset(lost)
    return Truth(
        rows=hidden(clean.rows, lost),
        tasks=hidden(clean.tasks, lost),
        refusable=lost.union(refusable),
        says=says,
    )


def hidden(values: Sequence[T | None], lost: Iterable[int]) -> tuple[T | None, ...]:
    """Return the values of all rows, with None for those that are lost."""
    gone = frozenset(lost)
    return tuple(None if row in gone else value for row, value in enumerate(values))


def unopened(*says: str) -> Truth:
    """Return the truth of a folder that cannot be opened, with an error of these words."""
    return Truth(rows=(), images={}, tasks=(), opens=False, says=says)
