"""SeaweedFS on loopback: one S3 server for a whole test run, however many processes run tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock

KEYS = {"access_key_id": "roboreel", "secret_access_key": "not-a-secret"}
BUCKET = "datasets"


class S3Server:
    """A running server. ``options`` are the storage_options that reach it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def options(self) -> dict[str, Any]:
        return self.options_through(self.port)

    def options_through(self, port: int) -> dict[str, Any]:
        """Return the options for a proxy in front of the server."""
        return {"endpoint": f"http://127.0.0.1:{port}", "region": "us-east-1", **KEYS}

    def store(self) -> Any:
        from obstore.store import S3Store

        return S3Store(BUCKET, **self.options, client_options={"allow_http": True})

    def upload(self, folder: Path, name: str) -> str:
        """Upload a folder; return its address."""
        import obstore

        for path in sorted(folder.rglob("*")):
            if path.is_file():
                key = f"{name}/{path.relative_to(folder).as_posix()}"
                obstore.put(self.store(), key, path.read_bytes())
        return f"s3://{BUCKET}/{name}"


def weed() -> str | None:
    """Return the path of SeaweedFS; None if it is not installed."""
    beside = Path(sys.executable).parent / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


class SharedServer:
    """Starts the server for the first who asks, and ends it after the last."""

    def __init__(self, shared: Path) -> None:
        self._state = shared / "s3_server.json"
        self._lock = FileLock(shared / "s3_server.lock")

    def __enter__(self) -> S3Server:
        with self._lock:
            state = self._read() or _start()
            state["users"] += 1
            self._state.write_text(json.dumps(state))
        return S3Server(state["port"])

    def __exit__(self, *error: object) -> None:
        with self._lock:
            state = self._read()
            assert state is not None
            state["users"] -= 1
            if state["users"]:
                self._state.write_text(json.dumps(state))
                return
            self._state.unlink()
            os.kill(state["pid"], signal.SIGKILL)
            for process in _started:
                process.wait()
            shutil.rmtree(state["folder"], ignore_errors=True)

    def _read(self) -> dict[str, Any] | None:
        return json.loads(self._state.read_text()) if self._state.exists() else None


def free_ports(count: int) -> list[int]:
    # SeaweedFS also listens at 10,000 above each port.
    taken = [socket.socket() for _ in range(count)]
    ports = []
    for one in taken:
        while True:
            port = 20_000 + int.from_bytes(os.urandom(2), "little") % 20_000
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
            break
    for one in taken:
        one.close()
    return ports


_started: list[subprocess.Popen[bytes]] = []
"""Not to be collected while they run."""


def _start() -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="roboreel-s3-"))
    (folder / "data").mkdir()
    identity = {
        "name": "test",
        "credentials": [
            {"accessKey": KEYS["access_key_id"], "secretKey": KEYS["secret_access_key"]}
        ],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    port, master, volume, filer = free_ports(4)
    command = [
        str(weed()),
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={folder / 'data'}",
        "-s3",
        f"-s3.port={port}",
        f"-s3.config={folder / 's3.json'}",
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        # Its other servers listen at fixed ports, and two would clash.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-volume.max=20",
        "-master.volumeSizeLimitMB=1024",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    _started.append(process)
    _wait(port, process)
    return {"port": port, "pid": process.pid, "folder": str(folder), "users": 0}


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    import obstore

    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                pass
            _make_bucket(port)
            obstore.put(S3Server(port).store(), "ready", b"1")
        except Exception:  # noqa: PERF203
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.2)
        else:
            return


def _make_bucket(port: int) -> None:
    """Make the bucket by a signed request, which obstore cannot make."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        **S3Server(port).options,
        client_options={"allow_http": True},
    )
    url = obstore.sign(store, "PUT", "", expires_in=timedelta(seconds=60))
    request = urllib.request.Request(url, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
