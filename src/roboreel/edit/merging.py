"""Several datasets become one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from roboreel.edit.layout import new_names
from roboreel.edit.plan import plan_edit
from roboreel.edit.recipe import Recipe, whole_episodes
from roboreel.edit.sources import Source
from roboreel.errors import EditError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from roboreel.edit.plan import EditPlan
    from roboreel.edit.recipe import Names
    from roboreel.schema import Feature


def plan_merge(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    rename: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
    pad: Mapping[str, float] | None = None,
    fps: float | None = None,
    link: bool = False,
) -> EditPlan:
    """Return how datasets become one. Nothing is written yet.

    The new dataset has the version of the first one, the rows of all of them in this order, and
    all their tasks. Packets are copied: videos of different codecs stay in files of their own.

    Args:
        paths: The datasets' folders.
        out: A new folder.
        rename: New names of features, in every dataset that has them.
        drop: Features to leave out, by their new names.
        pad: Numbers that some datasets lack, by their new names, and the value that their rows get.
        fps: A rate that all are resampled to, which encodes video again. By default the rates must
            be equal.
        link: Whether files may share their bytes with the old ones.

    Raises:
        NotADatasetError: There is no dataset at a path.
        EditError: The datasets differ in features or rates.
    """
    if len(paths) < 2:
        raise EditError(f"A merge takes two datasets or more, not {len(paths)}.")
    sources = [Source(path) for path in paths]
    names = [_names(source, rename or {}, drop) for source in sources]
    _check_rates(sources, fps)
    _check_features(sources, names, dict(pad or {}))
    pieces = tuple(
        piece
        for place, source in enumerate(sources)
        for piece in whole_episodes(source.manifest.episodes.length, place)
    )
    if not pieces:
        raise EditError("None of the datasets has an episode.")
    same = fps is None or all(source.manifest.fps == fps for source in sources)
    recipe = Recipe(pieces, tuple(names), padded=dict(pad or {}))
    recipe = recipe if same else replace(recipe, fps=fps)
    said = [f"merge {len(sources)} datasets", *_said(rename or {}, drop, pad or {})]
    return plan_edit(sources, recipe, said, Path(out).expanduser(), link=link)


def _names(source: Source, rename: Mapping[str, str], drop: Sequence[str]) -> Names:
    names: dict[str, str | None] = {n: rename[n] for n in source.manifest.features if n in rename}
    for name in source.manifest.features:
        if names.get(name, name) in drop:
            names[name] = None
    kept = [names.get(name, name) for name in source.manifest.features]
    twice = [name for name in kept if name is not None and kept.count(name) > 1]
    if twice:
        raise EditError(f"Two features would be called {twice[0]!r}: {str(source.root)!r}.")
    return names


def _check_rates(sources: Sequence[Source], fps: float | None) -> None:
    rates = {source.manifest.fps: source.root for source in sources}
    if len(rates) > 1 and fps is None:
        listed = ", ".join(f"{rate:g} in {str(root)!r}" for rate, root in list(rates.items())[:4])
        raise EditError(
            f"The datasets have different frames per second: {listed}. Resample them to one rate with "
            "--fps (fps=…), which encodes video again."
        )


def _check_features(
    sources: Sequence[Source], names: Sequence[Names], pad: Mapping[str, float]
) -> None:
    """Raise unless every dataset has the same features, or lacks some that are padded."""
    known: dict[str, tuple[Feature, Source]] = {}
    has: list[set[str]] = []
    for source, own in zip(sources, names, strict=True):
        here = new_names(source.manifest, own)
        has.append(set(here))
        for name, old in here.items():
            feature = source.manifest.features[old]
            first, where = known.setdefault(name, (feature, source))
            if _kind(first) != _kind(feature):
                raise EditError(
                    f"{name!r} is {first.dtype} {list(first.shape)} in {str(where.root)!r}, and "
                    f"{feature.dtype} {list(feature.shape)} in {str(source.root)!r}: rename one of "
                    "them, or drop it."
                )
            _check_order(name, first, feature, (where, source))
    for name, (feature, where) in known.items():
        lacking = [s for s, here in zip(sources, has, strict=True) if name not in here]
        if not lacking:
            continue
        if name not in pad:
            raise EditError(
                f"{name!r} is in {str(where.root)!r} and not in {str(lacking[0].root)!r}: rename a "
                f"feature (--rename), drop it (--drop {name})"
                + (f", or pad it (--pad {name}=0)." if feature.kind == "number" else ".")
            )
        if feature.kind != "number":
            raise EditError(
                f"{name!r} cannot be padded: only numbers can, and it is {feature.dtype}."
            )
    unknown = [name for name in pad if name not in known]
    if unknown:
        raise EditError(f"No dataset has a feature {unknown[0]!r} to pad.")


def _check_order(name: str, one: Feature, other: Feature, where: tuple[Source, Source]) -> None:
    """Raise if two datasets store the same elements of a feature in another order."""
    mine, theirs = one.names or (), other.names or ()
    if mine != theirs and sorted(mine) == sorted(theirs):
        raise EditError(
            f"The elements of {name!r} are in another order: {', '.join(mine)} in "
            f"{str(where[0].root)!r}, and {', '.join(theirs)} in {str(where[1].root)!r}. Rename one of "
            "them, or drop it."
        )


def _kind(feature: Feature) -> tuple[object, ...]:
    return feature.dtype, feature.shape, feature.depth


def _said(rename: Mapping[str, str], drop: Sequence[str], pad: Mapping[str, float]) -> list[str]:
    return [
        *(f"rename {old} to {new}" for old, new in rename.items()),
        *(f"drop {name}" for name in drop),
        *(f"pad {name} with {value:g}" for name, value in pad.items()),
    ]
