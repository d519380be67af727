"""Rerun's viewer as a child process that ends with ours and listens on loopback only."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import rerun_cli

from roboreel.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

LOOPBACK = "127.0.0.1"
_PATIENCE_S = 5.0
_START_S = 60.0


def open_viewer(files: Sequence[Path], *, port: int) -> None:
    """Show files in the native viewer until its window is closed.

    Raises:
        DatasetError: The port is in use, or the viewer failed, for example for lack of a display.
    """
    check_port(port)
    with _running(["--port", str(port), *map(str, files)]) as viewer:
        _wait_for_end(viewer)


def serve_viewer(
    send: Callable[[str], object], *, port: int, web_port: int, browse: bool = True
) -> None:
    """Serve recordings to a browser until interrupted.

    Args:
        send: Sends the recordings to the server at an address, as `send_episodes` does. If the
            server opened files instead, it would keep a core busy as long as it runs.
        port: Port on which the server receives recordings and serves them to the browser.
        web_port: Port of the web page.
        browse: Open the browser.

    Raises:
        DatasetError: A port is in use, or the server did not start or failed.
    """
    check_port(port)
    check_port(web_port, option="--web-port")
    ports = ["--port", str(port), "--web-viewer-port", str(web_port)]
    with _running(["--serve-web", *ports]) as server:
        for awaited in (port, web_port):
            _wait_for(awaited, server)
        send(data_address(port))
        address = web_address(port, web_port)
        print(f"Open {address}\nStop with Ctrl-C.", flush=True)  # noqa: T201  # for the user
        if browse:
            webbrowser.open(address)
        _wait_for_end(server)


def data_address(port: int) -> str:
    """Return the address at which a viewer, or its server, receives recordings."""
    return f"rerun+http://{LOOPBACK}:{port}/proxy"


def web_address(port: int, web_port: int) -> str:
    """Return the address of the web page."""
    return f"http://{LOOPBACK}:{web_port}/?url={data_address(port).replace('+', '%2B')}"


def check_port(port: int, *, option: str = "--port") -> None:
    """Raise if a port is in use: the viewer itself would only warn.

    Args:
        port: The port.
        option: The option that chooses another.

    Raises:
        DatasetError: The port is in use.
    """
    with socket.socket() as probe:
        if os.name != "nt":  # On Windows the option allows binding to a port in use.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise DatasetError(
                f"Port {port} of {LOOPBACK} is in use, perhaps by another viewer. Close it, or "
                f"choose another port: {option} {port + 1 if port < 65535 else port - 1}."
            ) from error


def viewer_program() -> Path:
    """Return the viewer's executable: the command ``rerun`` is a script that starts it."""
    override = os.environ.get("RERUN_CLI_PATH")
    if override:
        return Path(override)
    folder = Path(rerun_cli.__file__).parent
    bundled = folder / "Rerun.app/Contents/MacOS/Rerun"
    if bundled.exists():
        return bundled
    return folder / ("rerun.exe" if sys.platform == "win32" else "rerun")


@contextmanager
def _running(arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the viewer while the block runs, and end it however the block is left."""
    command = [str(viewer_program()), "--bind", LOOPBACK, *arguments]
    with _ending_on_signals(), subprocess.Popen(command, stdin=subprocess.DEVNULL) as viewer:
        try:
            yield viewer
        finally:
            _end(viewer)


def _wait_for_end(viewer: subprocess.Popen[bytes]) -> None:
    code = viewer.wait()
    if code:
        raise DatasetError(
            f"Rerun's viewer ended with exit code {code}; its own message is above. Without a "
            "display, show the episodes in a browser with --web, or write files with "
            "'roboreel export'."
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into exits, so that child processes are ended too."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    found = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    before = {number: signal.signal(number, leave) for number in found if number is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process listens on a port."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        time.sleep(0.05)
    code = process.poll()
    how = "" if code is None else f": it ended with exit code {code}; its own message is above"
    raise DatasetError(f"The viewer did not start listening on port {port}{how}.")
