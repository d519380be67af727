"""The viewer's default layout for a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import rerun as rr
import rerun.blueprint as rrb
from rerun.blueprint.api import create_in_memory_blueprint

from roboreel.rerun.entities import entity_path, shown_features

if TYPE_CHECKING:
    from roboreel.schema import Feature, Manifest

_MOST_SERIES = 32
"""A plot of more lines is hard to read and slow. The others can be switched on."""


def default_blueprint(manifest: Manifest) -> rrb.Blueprint:
    """Return the layout: cameras in a grid, state beside action, the task in words."""
    cameras = [rrb.Spatial2DView(origin=entity_path(name), name=name) for name in manifest.cameras]
    plots = {
        name: _plot(name, feature)
        for name, feature in shown_features(manifest.features).items()
        if feature.kind == "number"
    }
    main = [view for name, view in plots.items() if _is_main(name)]
    others = [view for name, view in plots.items() if not _is_main(name)]
    upper = [rrb.Grid(*cameras)] if cameras else []
    lower = [*main, *([rrb.Tabs(*others)] if others else [])]
    rows = [*upper, _texts(manifest), *([rrb.Horizontal(*lower)] if lower else [])]
    shares = [*([5.0] if upper else []), 1.0, *([3.0] if lower else [])]
    return rrb.Blueprint(
        rrb.Vertical(*rows, row_shares=shares),
        rrb.SelectionPanel(state="collapsed"),
        rrb.TimePanel(state="collapsed", timeline="frame_index", fps=float(manifest.fps)),
        auto_views=False,
    )


def blueprint_bytes(blueprint: rrb.Blueprint, application_id: str) -> bytes:
    """Return the content of a layout's ``.rbl`` file."""
    # Not by `Blueprint.save`: when the disk is full, it waits for ever or leaves half a file.
    recording = create_in_memory_blueprint(application_id=application_id, blueprint=blueprint)
    return bytes(recording.drain_as_bytes())


def _is_main(name: str) -> bool:
    """Whether a feature is what most people look at first."""
    return name == "action" or name.endswith("state")


def _texts(manifest: Manifest) -> rrb.Horizontal | rrb.TextDocumentView:
    names = [name for name, feature in manifest.features.items() if feature.is_text]
    paths = ["/task", *(["/subtask"] if manifest.subtasks else []), *map(entity_path, names)]
    views = [rrb.TextDocumentView(origin=path, name=path[1:]) for path in dict.fromkeys(paths)]
    return rrb.Horizontal(*views) if len(views) > 1 else views[0]


def _plot(name: str, feature: Feature) -> rrb.TimeSeriesView | rrb.TensorView:
    path = entity_path(name)
    if len(feature.value_shape) > 1:
        return rrb.TensorView(origin=path, name=name)
    width = feature.shape[0]
    if width <= _MOST_SERIES:
        return rrb.TimeSeriesView(origin=path, name=name)
    visible = np.arange(width) < _MOST_SERIES
    return rrb.TimeSeriesView(
        origin=path,
        name=f"{name}: {_MOST_SERIES} of {width}",
        overrides={path: rr.SeriesLines(visible_series=visible)},
    )
