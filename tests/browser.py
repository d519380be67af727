"""Headless Chromium, driven over a pipe."""

import base64
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

import pytest

from roboreel.image import decode_image

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or os.name != "posix", reason="Chromium is not here"
)

# A page that is drawn in software on a busy machine answers late.
_PATIENCE_S = 180
_FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-gpu-rasterization",
    "--hide-scrollbars",
    # A graphics card in software, which the viewer needs.
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--remote-debugging-pipe",
]

# The browser listens at descriptor 3 and answers at 4, wherever ours are.
_START = """
import os, sys
os.nice(15)
listen, answer = (os.dup(os.dup(os.dup(int(place)))) for place in sys.argv[1:3])
os.dup2(listen, 3)
os.dup2(answer, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """A browser with one page, in a fresh profile; a context manager."""

    def __init__(self, width=1200, height=900):
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-")
        theirs, self._to = os.pipe()
        self._from, answers = os.pipe()
        # select.select takes no descriptor beyond 1,023.
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._from, selectors.EVENT_READ)
        flags = [
            *_FLAGS,
            f"--window-size={width},{height}",
            f"--user-data-dir={self._profile.name}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs), str(answers), CHROMIUM, *flags],
            pass_fds=(theirs, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(answers)
        self._buffer = b""
        self._calls = 0
        self._session = ""
        self.requests: list[str] = []
        try:
            self._prepare(width, height)
        except BaseException:
            self.__exit__()
            raise

    def _prepare(self, width, height):
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with suppress(ProcessLookupError):  # It has many children, which may have outlived it.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        self._ready.close()
        os.close(self._from)
        shutil.rmtree(self._profile.name, ignore_errors=True)
        self._profile.cleanup()

    def call(self, method, session="page", **params):
        """Send a command and return its result."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            answer = self._receive(deadline)
            if answer.get("method") == "Network.requestWillBeSent":
                address = answer["params"]["request"]["url"]
                self.requests += [] if address.startswith("data:") else [address]
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer
                return answer["result"]
        raise TimeoutError(method)

    def open(self, address, *, dark=False):
        """Go to a page, in the light or in the dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + _PATIENCE_S
        while self.evaluate("document.readyState") != "complete" and time.monotonic() < deadline:
            time.sleep(0.1)

    def evaluate(self, expression):
        """Return the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def screenshot(self, *, whole=False):
        """Return what is seen as PNG; the whole page or the window."""
        options = {"captureBeyondViewport": True} if whole else {}
        data = self.call("Page.captureScreenshot", format="png", **options)["data"]
        return base64.b64decode(data)

    def pixels(self):
        """Return what is seen as an array ``(H, W, 3)``."""
        return decode_image(self.screenshot())

    def _receive(self, deadline):
        while b"\0" not in self._buffer:
            if not self._ready.select(max(deadline - time.monotonic(), 0)):
                raise TimeoutError("The browser does not answer.")
            data = os.read(self._from, 2**20)
            if not data:
                raise EOFError(f"The browser has ended with {self._process.wait(10)}.")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
