"""Web servers on loopback that send a folder: well, badly, or with faults on request."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from pathlib import Path


class FileServer(ThreadingHTTPServer):
    """Sends the files of a folder.

    Args:
        root: The folder.
        ranges: Whether parts of files are sent.
        etags: Whether files have one.
    """

    daemon_threads = True

    def __init__(self, root: Path, *, ranges: bool = True, etags: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.ranges = ranges
        self.etags = etags
        self.faults: list[str] = []
        """What goes wrong with the next requests for parts, one each: ``"503"``, ``"429"``,
        ``"cut"``, ``"stall"``, ``"403"``."""
        self.busy: list[tuple[int, str]] = []
        """Status and Retry-After of the next requests for parts, one each, before any fault."""
        self.asked: list[tuple[str, str | None]] = []
        """Path and range of each request."""
        self.tokens: set[str | None] = set()
        """What requests had as their authorization."""
        self.released = threading.Event()
        """Ends what stalls."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def find(self, name: str) -> Path:
        """Return the file that is sent for a name."""
        return self.root / name

    def __exit__(self, *error: object) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *about: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(send=False)

    def do_GET(self) -> None:
        self._answer(send=True)

    def log_message(self, *about: Any) -> None:
        """Say nothing."""

    def _answer(self, *, send: bool) -> None:
        name = unquote(self.path.split("?")[0]).lstrip("/")
        asked = self.headers.get("Range")
        self.server.asked.append((name, asked))
        self.server.tokens.add(self.headers.get("Authorization"))
        path = self.server.find(name)
        if send and asked and self.server.busy:
            status, wait = self.server.busy.pop(0)
            self._refuse(status, {"Retry-After": wait} if wait else {})
            return
        fault = self.server.faults.pop(0) if send and asked and self.server.faults else ""
        if fault in ("503", "429", "403"):
            self._refuse(int(fault), {"Retry-After": "1"} if fault != "403" else {})
        elif not path.is_file():
            self._refuse(404)
        else:
            self._send(path, asked if self.server.ranges else None, fault, send=send)

    def _refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, path: Path, asked: str | None, fault: str, *, send: bool) -> None:
        data = path.read_bytes()
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        if self.headers.get("If-Match") not in (None, etag):
            self._refuse(412)
            return
        total, body = len(data), data
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", asked or "")
        if found:
            first, last = int(found[1]), min(int(found[2]), total - 1)
            body = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(path.stat().st_mtime))
        self.send_header("Last-Modified", moment)
        if self.server.etags:
            self.send_header("ETag", etag)
        self.end_headers()
        if not send:
            return
        if fault:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if fault == "stall":
                self.server.released.wait(60)
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(body)
