"""roboreel view: episodes in Rerun's viewer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from roboreel.cli.export import send_recordings, write_recordings

__all__ = ["view"]


def view(
    path: Path = typer.Argument(..., help="The dataset's folder."),
    episode: int | None = typer.Option(None, min=0, help="One episode; the first if not given."),
    episodes: str | None = typer.Option(None, help="Several, such as 0-9."),
    web: bool = typer.Option(False, "--web", help="In the browser instead of a window."),
    port: int = typer.Option(9876, min=1, max=65535, help="Where the viewer takes data."),
    web_port: int = typer.Option(9090, min=1, max=65535, help="Where the browser finds the page."),
    browse: bool = typer.Option(True, help="With --web: open the browser."),
) -> None:
    """Look at episodes in Rerun's viewer, which serves this machine alone."""
    if episode is not None and episodes is not None:
        raise typer.BadParameter("Name one --episode, or several --episodes.")
    from roboreel.rerun import viewer  # Needs the extra; other commands do not.

    chosen = episodes or str(episode or 0)
    viewer.check_port(port)  # Before any work is done.
    if web:
        viewer.serve_viewer(
            lambda address: send_recordings(path, chosen, address),
            port=port,
            web_port=web_port,
            browse=browse,
        )
        return
    with tempfile.TemporaryDirectory(prefix="roboreel-view-") as folder:
        recordings = write_recordings(path, chosen, Path(folder))
        viewer.open_viewer([*recordings, *Path(folder).glob("*.rbl")], port=port)
