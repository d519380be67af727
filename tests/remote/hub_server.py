"""A small stand-in for the Hub on loopback: one dataset, its files, and a list of requests.

It takes uploads too: a commit changes the files of the folder that it serves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(ThreadingHTTPServer):
    """Serves the dataset ``owner/name`` from a folder; ``fetched`` lists the files sent."""

    def __init__(self, root: Path, *, cut_after: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.fetched: list[tuple[str, str | None]] = []
        """Path and range of each file that was sent."""
        self.cut_after = cut_after
        """Break off the next transfer after so many bytes."""
        self.blobs: dict[str, bytes] = {}
        """What was uploaded, by its SHA-256: it stays, even if no commit follows."""
        self.uploaded: list[str] = []
        """SHA-256 of each upload, in the order of arrival."""
        self.uploads_left: int | None = None
        """Refuse uploads after so many."""
        self.commits: list[list[str]] = []
        """Paths that each commit added or deleted, the latter with a minus sign."""
        self.cdn: str | None = None
        """Another host, to which requests for large files are sent on."""
        self.resolved: list[str] = []
        """Files that were asked where they are."""
        self.tokens: set[str | None] = set()
        """What requests for files had as their authorization."""
        self.too_many = 0
        """Refuse so many requests for files, for there are too many."""
        self.tags: dict[str, int] = {}
        """By tag, how many commits there were when it was set."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files(self) -> list[str]:
        return sorted(
            path.relative_to(self.root).as_posix()
            for path in self.root.rglob("*")
            if path.is_file()
        )


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if re.match(r"/api/datasets/owner/name(/revision/[\w.-]+)?(\?|$)", self.path):
            siblings = [{"rfilename": name} for name in self.server.files()]
            about = {"id": "owner/name", "sha": COMMIT, "siblings": siblings, "tags": []}
            self._send(json.dumps({**about, "private": False, "disabled": False}).encode())
            return
        if self.path.startswith("/api/datasets/owner/name/refs"):
            tag = {"name": "v3.0", "ref": "refs/tags/v3.0", "targetCommit": COMMIT}
            branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": COMMIT}
            about = {"branches": [branch], "converts": [], "tags": [tag]}
            self._send(json.dumps(about).encode())
            return
        if self.path.startswith("/api/datasets/owner/name/tree/"):
            self._send(json.dumps([self._entry(name) for name in self.server.files()]).encode())
            return
        self._file(send=True)

    def _entry(self, name: str) -> dict[str, object]:
        data = (self.server.root / name).read_bytes()
        oid = hashlib.sha1(data).hexdigest()
        return {"type": "file", "path": name, "size": len(data), "oid": oid}

    def do_HEAD(self) -> None:
        self._file(send=False)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        action = self.path.split("?")[0].rsplit("/", 2)[1]
        if action == "tag":
            self.server.tags[json.loads(body)["tag"]] = len(self.server.commits)
        answers = {
            "repos": self._made,
            "paths-info": self._described,
            "preupload": self._modes,
            "objects": self._batch,
            "commit": self._commit,
        }
        answer = answers[action](body) if action in answers else {}
        self._send(json.dumps(answer).encode())

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        left = self.server.uploads_left
        if left is not None and left <= 0:
            self._send(b"{}", status=403)
            return
        self.server.uploads_left = None if left is None else left - 1
        oid = hashlib.sha256(data).hexdigest()
        assert self.path == f"/upload/{oid}"
        self.server.blobs[oid] = data
        self.server.uploaded.append(oid)
        self._send(b"")

    def do_DELETE(self) -> None:
        if self.server.tags.pop(self.path.rsplit("/", 1)[1], None) is None:
            self._send(b"{}", status=404, headers={"X-Error-Code": "RevisionNotFound"})
        else:
            self._send(b"{}")

    def _described(self, body: bytes) -> list[dict[str, object]]:
        """Return what is known of the files and folders that a form names."""
        asked = parse_qs(body.decode())["paths"] if b"paths=" in body else json.loads(body)["paths"]
        files = self.server.files()
        folders = {name[:at] for name in files for at, one in enumerate(name) if one == "/"}
        found = [self._entry(name) for name in asked if name in files]
        return found + [
            {"type": "directory", "path": name, "oid": COMMIT} for name in asked if name in folders
        ]

    def _made(self, body: bytes) -> dict[str, object]:
        assert json.loads(body)["type"] == "dataset"
        return {"url": f"{self.server.endpoint}/datasets/owner/name", "id": "owner/name"}

    def _modes(self, body: bytes) -> dict[str, object]:
        names = [file["path"] for file in json.loads(body)["files"]]
        large = {name: name.endswith((".parquet", ".mp4")) for name in names}
        return {
            "files": [
                {"path": name, "uploadMode": "lfs" if large[name] else "regular",
                 "shouldIgnore": False}
                for name in names
            ]
        }  # fmt: skip

    def _batch(self, body: bytes) -> dict[str, object]:
        objects = []
        for wanted in json.loads(body)["objects"]:
            known = wanted["oid"] in self.server.blobs
            upload = {"href": f"{self.server.endpoint}/upload/{wanted['oid']}"}
            objects.append({**wanted, **({} if known else {"actions": {"upload": upload}})})
        return {"transfer": "basic", "objects": objects}

    def _commit(self, body: bytes) -> dict[str, object]:
        changed = []
        for line in body.splitlines():
            kind, value = (entry := json.loads(line))["key"], entry["value"]
            if kind == "header":
                continue
            path = self.server.root / value["path"]
            if kind == "deletedFile":
                path.unlink()
                changed.append(f"-{value['path']}")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            stored = kind == "lfsFile"
            path.write_bytes(
                self.server.blobs[value["oid"]] if stored else base64.b64decode(value["content"])
            )
            changed.append(value["path"])
        self.server.commits.append(changed)
        url = f"{self.server.endpoint}/datasets/owner/name/commit/{COMMIT}"
        return {"commitUrl": url, "commitOid": COMMIT, "success": True}

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _file(self, *, send: bool) -> None:
        match = re.match(r"/datasets/owner/name/resolve/[\w.-]+/([^?]+)", self.path)
        path = self.server.root / match[1] if match else None
        if match is None or path is None or not path.is_file():
            code = "RepoNotFound" if self.path.startswith("/api/") else "EntryNotFound"
            self._send(b"{}", status=404, headers={"X-Error-Code": code})
            return
        self.server.tokens.add(self.headers.get("Authorization"))
        if self.command == "HEAD":
            self.server.resolved.append(match[1])
        if self.server.too_many:
            self.server.too_many -= 1
            self._send(b"{}", status=429, headers={"Retry-After": "1"})
            return
        data = path.read_bytes()
        if self.server.cdn is not None and match[1].endswith((".parquet", ".mp4")):
            headers = {
                "Location": f"{self.server.cdn}/{match[1]}?signature=x",
                "X-Linked-Size": str(len(data)),
                "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"',
                "X-Repo-Commit": COMMIT,
            }
            self._send(b"", status=302, headers=headers)
            return
        headers = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        wanted = self.headers.get("Range")
        first, _, last = (wanted or "bytes=0-").removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1 if last else len(data), len(data))
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            headers["Last-Modified"] = "Wed, 21 Oct 2015 07:28:00 GMT"
        if send:
            self.server.fetched.append((match[1], wanted))
        self._send(data[start:stop], 206 if wanted else 200, headers, send=send, cut=True)

    def _send(
        self,
        data: bytes,
        status: int = 200,
        headers: dict[str, str] | None = None,
        *,
        send: bool = True,
        cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/octet-stream", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not send or self.command == "HEAD":
            return
        if cut and self.server.cut_after is not None and len(data) > self.server.cut_after:
            data, self.server.cut_after = data[: self.server.cut_after], None
            self.close_connection = True
        self.wfile.write(data)
