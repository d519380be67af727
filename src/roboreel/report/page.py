"""The page: one self-contained file without scripts."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roboreel import __version__
from roboreel.files import write_atomically
from roboreel.report.distribution import MOST_ELEMENTS, Distribution
from roboreel.report.plots import bar_list, histogram, range_bar, show
from roboreel.report.survey import Survey, survey_dataset

if TYPE_CHECKING:
    import os

    from roboreel.dataset import Dataset
    from roboreel.report.survey import Strip
    from roboreel.schema import Feature

_MOST_NAMES = 12
# Makes the browser refuse to fetch or run anything.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(dataset: Dataset, out: str | os.PathLike[str]) -> Path:
    """Write a page about a dataset or view, replacing an existing file in one step.

    It lists what `check_dataset` finds with the tier ``"index"``, and takes as long: every row and
    the packet tables of all videos are read. Of a remote dataset only the metadata is checked.
    Distributions are those of at most 100,000 rows, and a few images are shown.

    Args:
        dataset: The dataset or view.
        out: The file to write, such as ``report.html``.

    Returns:
        The path of the page.
    """
    path = Path(out).expanduser()
    write_atomically(path, render_page(survey_dataset(dataset)))
    return path


def render_page(survey: Survey) -> str:
    """Return the page as HTML. Everything from the dataset is escaped."""
    name = survey.dataset.path.resolve().name
    style = files("roboreel.report").joinpath("style.css").read_text(encoding="utf-8")
    parts = [
        _head(survey, name),
        _doubts(survey),
        _section("Episode lengths", _lengths(survey)),
        _section("Tasks", bar_list(survey.tasks, "episodes") if survey.tasks else ""),
        _section("Images", _strips(survey.strips)),
        _section("Features", _features(survey)),
        _section("Values", _values(survey)),
        _section("Texts", _texts(survey)),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)}</title><style>\n{style}</style></head><body><main>"
        f"{''.join(parts)}<footer>Made by roboreel {__version__}.</footer></main></body></html>\n"
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>" if inside else ""


def _head(survey: Survey, name: str) -> str:
    dataset, manifest = survey.dataset, survey.dataset.manifest
    minutes, seconds = divmod(round(len(dataset) / dataset.fps), 60)
    hours, minutes = divmod(minutes, 60)
    totals = {
        "episode" if len(dataset.episodes) == 1 else "episodes": f"{len(dataset.episodes):,}",
        "frames": f"{len(dataset):,}",
        "hours : min : s": f"{hours}:{minutes:02d}:{seconds:02d}",
        "frames a second": f"{dataset.fps:g}",
        "camera" if len(dataset.cameras) == 1 else "cameras": f"{len(dataset.cameras)}",
        "task" if len(survey.tasks) == 1 else "tasks": f"{len(survey.tasks):,}",
    }
    cards = "".join(f"<div><b>{value}</b><span>{key}</span></div>" for key, value in totals.items())
    robot = escape(manifest.robot_type or "not named")
    return (
        f"<h1>{escape(name)}</h1><p class='quiet'>LeRobot {escape(manifest.version)} dataset · "
        f"robot: {robot}</p><div class='totals'>{cards}</div>"
    )


def _doubts(survey: Survey) -> str:
    lines = "".join(f"<li>{escape(doubt)}</li>" for doubt in survey.doubts)
    inside = f"<ul>{lines}</ul><p class='note'>{escape(' '.join(survey.checked))}</p>"
    if all(doubt.startswith("note RR") for doubt in survey.doubts):
        title = "Nothing that was checked looks wrong."
        return f"<section class='sound'><h2>{title}</h2>{inside}</section>"
    return f"<section class='doubts'><h2>Worth a second look</h2>{inside}</section>"


def _lengths(survey: Survey) -> str:
    lengths = survey.dataset.episodes.lengths
    if not len(lengths):
        return ""
    low, high = int(lengths.min()), int(lengths.max())
    bins = int(np.clip(high - low + 1, 1, 60))
    edges = (float(low), float(high)) if high > low else (low - 0.5, high + 0.5)
    counts, _ = np.histogram(lengths, bins=bins, range=edges)
    plot = histogram(counts, edges, width=1000, height=130, unit=" frames")
    return (
        plot.replace('class="histogram"', 'class="histogram wide"')
        + f"<div class='scale'><span>{low} frames</span><span>median {np.median(lengths):g}, mean "
        f"{lengths.mean():.1f}</span><span>{high} frames</span></div>"
    )


def _strips(strips: list[Strip]) -> str:
    return f"<div class='strips'>{''.join(map(_strip, strips))}</div>" if strips else ""


def _strip(strip: Strip) -> str:
    figures = "".join(
        f"<figure><img alt='' src='{picture}'><figcaption>frame {frame}</figcaption></figure>"
        for frame, picture in zip(strip.frames, strip.pictures, strict=True)
    )
    title = f"{escape(strip.camera)}<small>episode {strip.episode}</small>"
    return f"<div class='strip'><h3>{title}</h3><div class='images'>{figures}</div></div>"


def _features(survey: Survey) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(feature.dtype)}"
        f"{' (depth)' if feature.depth else ''}</td><td class='shape'>{_shape(feature)}</td>"
        f"<td>{_names(feature)}</td></tr>"
        for name, feature in survey.dataset.features.items()
    )
    heads = "".join(f"<th>{head}</th>" for head in ("feature", "type", "shape", "names"))
    return f"<div class='scroll'><table><tr>{heads}</tr>{rows}</table></div>"


def _shape(feature: Feature) -> str:
    return " × ".join(map(str, feature.shape))  # noqa: RUF001  # a multiplication sign, for readers


def _names(feature: Feature) -> str:
    names = () if feature.is_camera else feature.names or ()
    more = f", … {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return escape(", ".join(names[:_MOST_NAMES]) + more)


def _values(survey: Survey) -> str:
    total = len(survey.dataset)
    note = (
        f"<p class='note'>From {survey.rows_read:,} of {total:,} frames, in evenly spaced "
        "stretches.</p>"
        if survey.rows_read < total
        else ""
    )
    return (
        "".join(
            _feature_values(name, survey.dataset.features[name], elements)
            for name, elements in survey.numbers.items()
            if elements
        )
        + note
    )


def _feature_values(name: str, feature: Feature, elements: list[Distribution]) -> str:
    finite = [e for e in elements if np.isfinite(e.minimum)]
    whole = (
        min((e.edges[0] for e in finite), default=0.0),
        max((e.edges[1] for e in finite), default=1.0),
    )
    heads = "".join(
        f"<th{' class=number' if number else ''}>{head}</th>"
        for head, number in (
            *(("", False), ("distribution", False), ("range", False)),
            *((head, True) for head in ("min", "median", "max", "mean", "std")),
        )
    )
    rows = "".join(_element(element, whole) for element in elements)
    count = int(np.prod(feature.shape, dtype=np.int64))
    cut = f"first {MOST_ELEMENTS} of {count} elements" if count > MOST_ELEMENTS else ""
    title = f"{escape(name)}<small>{escape(feature.dtype)} {_shape(feature)} {cut}</small>"
    return (
        f"<div class='feature'><h3>{title}</h3><div class='scroll'><table>"
        f"<tr>{heads}</tr>{rows}</table></div></div>"
    )


def _element(element: Distribution, whole: tuple[float, float]) -> str:
    plots = "<td></td><td>nothing finite</td>"
    if np.isfinite(element.minimum):
        plot = histogram(element.bins, element.edges, width=190, height=26)
        plots = f"<td>{plot}</td><td>{range_bar(element, whole)}</td>"
    numbers = (element.minimum, element.median, element.maximum, element.mean, element.std)
    cells = "".join(f"<td class='number'>{show(number)}</td>" for number in numbers)
    return f"<tr><td>{escape(element.label)}</td>{plots}{cells}</tr>"


def _texts(survey: Survey) -> str:
    return "".join(
        f"<div class='feature'><h3>{escape(name)}</h3>{bar_list(dict(texts), 'frames')}</div>"
        for name, texts in survey.texts.items()
    )
