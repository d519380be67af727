"""roboreel view: episodes in Rerun's viewer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roboreel.cli.arguments import DatasetArgument, select_episodes
from roboreel.cli.export import open_for_export, send_recordings, write_recordings

if TYPE_CHECKING:
    from roboreel.dataset import Dataset


def view(
    path: DatasetArgument,
    episode: Annotated[
        int | None, typer.Option(min=0, help="One episode. Default: the first.")
    ] = None,
    episodes: Annotated[
        str | None, typer.Option(metavar="LIST", help="Several episodes, such as 0,4,7-9.")
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Show them in the browser.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The viewer's data port.")] = 9876,
    web_port: Annotated[
        int, typer.Option(min=1, max=65535, help="With --web: the port of the page.")
    ] = 9090,
    browse: Annotated[bool, typer.Option(help="With --web: open the browser.")] = True,
) -> None:
    """Show episodes in Rerun's viewer. Only this machine can reach it."""
    if episode is not None and episodes is not None:
        raise typer.BadParameter("Give --episode or --episodes, not both.")
    from roboreel.rerun import viewer  # Needs the extra; other commands do not.

    viewer.check_port(port)  # Before any work is done.
    chosen = _choose(open_for_export(path), episode, episodes)
    if web:
        viewer.serve_viewer(
            lambda address: send_recordings(chosen, address),
            port=port,
            web_port=web_port,
            browse=browse,
        )
        return
    with tempfile.TemporaryDirectory(prefix="roboreel-view-") as folder:
        recordings = write_recordings(chosen, Path(folder))
        viewer.open_viewer([*recordings, *Path(folder).glob("*.rbl")], port=port)


def _choose(dataset: Dataset, episode: int | None, episodes: str | None) -> Dataset:
    if episodes is not None:
        return select_episodes(dataset, episodes)
    # The first episode need not be number 0.
    return dataset.select([dataset.episodes[0].number if episode is None else episode])
