"""A real viewer shows what is in the dataset."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rerun.chunk")

import roboreel as reel
from roboreel.errors import DatasetError
from roboreel.image import decode_image
from roboreel.rerun import export_episodes, viewer
from roboreel.schema import Feature
from roboreel.video.scale import scale_picture
from tests import factory
from tests.browser import Browser, needs_chromium
from tests.video_factory import number_of, write_video

pytestmark = pytest.mark.long

CAMERA = "observation.images.top"
SIZE = (96, 144)

needs_vulkan = pytest.mark.skipif(
    not any(
        Path(folder).glob("*.json") for folder in ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")
    ),
    reason="There is no graphics driver: apt-get install mesa-vulkan-drivers",
)


def write_numbered(root, lengths, **video):
    """Write a dataset whose images show their row numbers."""
    features = {
        "observation.state": Feature("float32", (2,), names=("x", "y")),
        CAMERA: Feature("video", (*SIZE, 3)),
    }
    manifest = factory.write_dataset(root, lengths, features=features, episodes_per_file=99)
    path = root / manifest.video_files[CAMERA][0]
    path.parent.mkdir(parents=True)
    write_video(path, range(sum(lengths)), size=SIZE, **video)
    return root


def free_port():
    with socket.socket() as probe:
        probe.bind((viewer.LOOPBACK, 0))
        return probe.getsockname()[1]


def inside_of(view):
    """Return the image in a screenshot of a view, which fits it in between bars."""
    height, width = view.shape[:2]
    scale = min(height / SIZE[0], width / SIZE[1])
    tall, wide = int(SIZE[0] * scale), int(SIZE[1] * scale)
    top, left = (height - tall) // 2, (width - wide) // 2
    return view[top : top + tall, left : left + wide]


@needs_vulkan
@pytest.mark.parametrize("gop", [4, 40], ids=["stream", "asset"])
def test_the_native_viewer_shows_the_image_of_each_frame(gop, tmp_path):
    experimental = pytest.importorskip("rerun.experimental")
    root = write_numbered(tmp_path / "data", [12, 20], codec="libsvtav1", gop=gop)
    (path,) = export_episodes(reel.open_dataset(root).select([1]), tmp_path)
    source = reel.open_dataset(root).episodes[1].read([CAMERA], layout="hwc")[CAMERA]
    with experimental.ViewerClient.spawn(
        headless=True, port=free_port(), executable_path=str(viewer.viewer_program())
    ) as client:
        client.open([str(tmp_path / "blueprint.rbl"), str(path)])
        for frame in (13, 2):
            client.set_time("frame_index", sequence=frame, play_state="paused")
            image = wait_for_number(client, 12 + frame)
            expected = scale_picture(source[frame], image.shape[:2])
            assert np.abs(image.astype(int) - expected).mean() < 6


@needs_vulkan
def test_a_recording_alone_is_laid_out_by_the_viewer(tmp_path):
    experimental = pytest.importorskip("rerun.experimental")
    root = write_numbered(tmp_path / "data", [12], codec="libsvtav1", gop=4)
    (path,) = export_episodes(reel.open_dataset(root), tmp_path)
    with experimental.ViewerClient.spawn(
        headless=True, port=free_port(), executable_path=str(viewer.viewer_program())
    ) as client:
        client.open([str(path)])
        names: set[str] = set()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(names) < 3:
            time.sleep(1)
            names = {view.name for view in client.get_state().views}
    assert names == {CAMERA, "observation.state", "task"}


def wait_for_number(client, number):
    """Return the camera's image once it shows a number, as a picture fades in slowly."""
    seen, deadline = None, time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(1)
        views = [view for view in client.get_state().views if view.name == CAMERA]
        try:
            picture = client.take_screenshot(views[0].view_id)
        except (IndexError, TimeoutError):  # Not there yet, or rendering in software.
            continue
        image = inside_of(decode_image(picture))
        seen = number_of(image)
        if seen == number:
            return image
    raise AssertionError(f"{number} was expected, {seen} was seen")


@needs_chromium
def test_the_browser_shows_the_last_image_and_the_plot(tmp_path):
    root = write_numbered(tmp_path / "data", [12], codec="libsvtav1", gop=4)
    number, lines, deadline = -1, 0, time.monotonic() + 120
    with serving(root) as address, Browser(640, 480) as browser:
        browser.open(address)
        while time.monotonic() < deadline and (number, lines) != (11, 2):
            time.sleep(1)
            number, lines = what_is_seen(browser.pixels())
    assert (number, lines) == (11, 2)


def what_is_seen(window):
    """Return the number that the camera shows and how many ends of the plot have a line.

    The window is 640 wide and 480 high. The camera's view lies above, the plot's below.
    """
    camera, plot = window[68:262].astype(int), window[342:434, 42:636].astype(int)
    columns = np.flatnonzero((camera.max(axis=2) < 245).mean(axis=0) > 0.9)
    number = number_of(camera[:, columns]) if len(columns) > 100 else -1
    colourful = (plot.max(axis=2) - plot.min(axis=2) > 50).any(axis=0)
    return number, int(colourful[60:300].all()) + int(colourful[300:-20].all())


class serving:  # noqa: N801  # used like a function
    """``roboreel view --web`` in a process of its own; gives the address."""

    def __init__(self, root):
        self.port, self.web_port = free_port(), free_port()
        arguments = ["view", str(root), "--web", "--no-browse"]
        arguments += ["--port", str(self.port), "--web-port", str(self.web_port)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from roboreel.cli import main; main()", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Open http://127.0.0.1:"), self.process.communicate()
        return line.split()[-1]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=120)


@pytest.mark.skipif(os.name != "posix", reason="signals and addresses of POSIX")
def test_the_server_listens_to_this_machine_alone_and_ends_with_the_command(tmp_path):
    factory.write_dataset(tmp_path / "data", [4])
    server = serving(tmp_path / "data")
    with server:
        socket.create_connection((viewer.LOOPBACK, server.port), timeout=60).close()
        if sys.platform == "linux":  # Another address of this machine; 0.0.0.0 would answer.
            for port in (server.port, server.web_port):
                with pytest.raises(OSError, match="refused"):
                    socket.create_connection(("127.0.0.2", port), timeout=60)
    assert server.process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    viewer.check_port(server.port)
    viewer.check_port(server.web_port)


@pytest.mark.skipif(sys.platform != "linux", reason="processor time as Linux tells it")
def test_a_server_that_nobody_looks_at_is_idle(tmp_path):
    factory.write_dataset(tmp_path / "data", [4])
    server = serving(tmp_path / "data")
    with server:
        command = server.process.pid
        (child,) = Path(f"/proc/{command}/task/{command}/children").read_text().split()
        used = [processor_seconds(child)]
        # It may still be starting: on a busy machine that takes a while.
        while len(used) < 60 and (len(used) < 2 or used[-1] - used[-2] > 0.25):
            time.sleep(1)
            used.append(processor_seconds(child))
        assert used[-1] - used[-2] <= 0.25


def processor_seconds(process):
    used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do():
    with socket.socket() as taken:
        taken.bind((viewer.LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DatasetError, match=rf"Port {port} of 127.0.0.1 is in use.*--port"):
            viewer.open_viewer([], port=port)
        with pytest.raises(DatasetError, match=rf"Port {port} .*: --web-port \d"):
            viewer.serve_viewer(print, port=free_port(), web_port=port)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_a_viewer_that_fails_is_an_error(monkeypatch, capfd):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(DatasetError, match=r"exit code 1; .*--web"):
        viewer.open_viewer([], port=free_port())
    assert "DISPLAY is set" in capfd.readouterr().err  # not a complaint about the arguments


def test_the_program_is_the_viewer_itself_and_not_its_wrapper():
    start = viewer.viewer_program().read_bytes()[:2]
    assert start != b"#!"


@pytest.mark.skipif(os.name == "nt", reason="needs a program that fails at once")
def test_a_server_that_does_not_start_says_how_it_ended(monkeypatch):
    monkeypatch.setenv("RERUN_CLI_PATH", shutil.which("false") or "false")
    with pytest.raises(DatasetError, match="ended with exit code 1"):
        viewer.serve_viewer(lambda _: None, port=free_port(), web_port=free_port(), browse=False)


@pytest.mark.skipif(os.name == "nt", reason="needs a program that fails at once")
@pytest.mark.parametrize("more", [[], ["--web", "--no-browse"]], ids=["window", "browser"])
def test_the_command_fails_if_the_viewer_does(tmp_path, more):
    factory.write_dataset(tmp_path / "data", [4])
    ports = ["--port", str(free_port()), "--web-port", str(free_port())]
    command = [sys.executable, "-m", "roboreel", "view", str(tmp_path / "data"), *ports, *more]
    failing = {**os.environ, "RERUN_CLI_PATH": shutil.which("false") or "false"}
    done = subprocess.run(command, env=failing, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "exit code 1" in " ".join(done.stderr.split())
