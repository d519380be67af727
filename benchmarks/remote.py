"""Remote datasets at several round trips: ``python -m benchmarks.remote [--quick] [--only 30 …]``.

An S3 server (SeaweedFS), a stand-in of the Hub for LeRobot, and a proxy that delays every chunk run on
this machine, on the same cores. Rows of round trips that are not measured stay in the result.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import report
from benchmarks.origin import Origin
from benchmarks.process import PROJECT
from benchmarks.results import OURS, PER_CPU_SECOND, PER_SECOND, Row

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.remote.s3_server import S3Server

__all__ = ["main"]

ROUND_TRIPS_MS = (0, 30, 100)
TITLE = "remote: two AV1 cameras, batches of 32 at random, by round trip"
LOCAL = "roboreel, local copy"
DOWNLOADED = "download all first, without the batch"
STREAMED = "StreamingLeRobotDataset 0.6.1"
_BATCH = 32
_CHUNK_BYTES = 2**16


def _delay(port: int, round_trip_ms: float, ready: Connection) -> None:
    """Pass everything on to a port, half a round trip later; throughput stays."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        sending = asyncio.create_task(send())
        while data := await reader.read(_CHUNK_BYTES):
            await queue.put((time.monotonic() + round_trip_ms / 2000, data))
        await queue.put((0.0, b""))
        await sending

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        except (ConnectionError, OSError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def _proxy(port: int, round_trip_ms: float) -> tuple[int, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_delay, args=(port, round_trip_ms, theirs), daemon=True)
    process.start()
    return ours.recv(), process


def _row(step: str, contender: str, count: int, taken: tuple[float, float], **notes: float) -> Row:
    """Return a row without its scenario; ``taken`` has seconds and CPU seconds."""
    wall_s, cpu_s = taken
    return Row("", step, contender, count, cpu_s, wall_s, None, None, 0, notes, (cpu_s,))


def _epoch(dataset: Any) -> tuple[float, float, float]:  # noqa: ANN401  # a Dataset
    """Return seconds and CPU seconds of an epoch, and when its first batch was there."""
    from roboreel.loading import Loader

    begun, cpu, first = time.perf_counter(), time.process_time(), 0.0
    for _ in Loader(dataset, _BATCH, shuffle=True, seed=1):
        first = first or time.perf_counter()
    return time.perf_counter() - begun, time.process_time() - cpu, first


def _measure(url: str, options: dict[str, Any], mirror: Path, near: Path) -> list[Row]:
    """Open a dataset, take the first batch, and two epochs; beside the local one."""
    import roboreel as reel

    local = reel.open_dataset(near)
    _epoch(local)  # Libraries are loaded, and files are in the page cache, for all.
    started, cpu = time.perf_counter(), time.process_time()
    far = reel.open_dataset(url, mirror=mirror, storage_options=options)
    opened = (time.perf_counter() - started, time.process_time() - cpu)
    assert far.fetched is not None
    at_open = far.fetched
    *first, first_batch = _epoch(far)
    fetched = far.fetched
    wanted = sum(p.stat().st_size for d in ("data", "videos") for p in (near / d).rglob("*.*"))
    notes = {
        "bytes_of_wanted": (fetched.fetched_bytes - at_open.fetched_bytes) / wanted,
        "requests_per_sample": (fetched.requests - at_open.requests) / len(far),
        "kb_per_sample": fetched.fetched_bytes / len(far) / 1e3,
    }
    *second, _ = _epoch(far)
    *beside, _ = _epoch(local)
    count = len(far)
    return [
        _row("open", OURS, 1, opened, requests=at_open.requests + 1),  # and the list
        _row("first batch, from the start", OURS, 1, (first_batch - started, 0.0)),
        _row("first epoch", OURS, count, (first[0], first[1]), **notes),
        _row("first epoch", LOCAL, count, (beside[0], beside[1])),
        _row("second epoch", OURS, count, (second[0], second[1])),
        _row("second epoch", LOCAL, count, (beside[0], beside[1])),
    ]


def _download(url: str, options: dict[str, Any], out: Path) -> Row:
    """Return how long it takes to fetch all files first, 16 at a time."""
    import obstore
    from obstore.store import from_url

    store: Any = from_url(url, client_options={"allow_http": True}, **options)
    started, cpu = time.perf_counter(), time.process_time()
    names = [str(entry["path"]) for page in obstore.list(store) for entry in page]

    def fetch(name: str) -> None:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(obstore.get(store, name).bytes())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(fetch, names))
    taken = (time.perf_counter() - started, time.process_time() - cpu)
    return _row("first batch, from the start", DOWNLOADED, 1, taken)


def _open_large(url: str, options: dict[str, Any], mirror: Path) -> Row:
    import roboreel as reel

    started, cpu = time.perf_counter(), time.process_time()
    far = reel.open_dataset(url, mirror=mirror, storage_options=options)
    taken = (time.perf_counter() - started, time.process_time() - cpu)
    assert far.fetched is not None
    return _row("open 1,000 episodes", OURS, 1, taken, requests=far.fetched.requests + 1)


def _stream(near: Path, round_trip_ms: float, scratch: Path) -> list[Row]:
    """Return what LeRobot needs for an epoch from a Hub; nothing if its environment is not there."""
    from tests.remote.hub_server import HubServer

    home = os.environ.get("ROBOREEL_PEERS_0_6_1", str(PROJECT / ".venv-peers-0.6.1"))
    python = Path(home) / "bin" / "python"
    if not python.exists():
        return []
    out = scratch / f"streamed-{round_trip_ms}.json"
    with HubServer(near) as hub:
        port, process = _proxy(hub.server_port, round_trip_ms)
        variables = {
            **{name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"},
            "HF_ENDPOINT": f"http://127.0.0.1:{port}",
            "HF_HOME": str(scratch / f"hf-{round_trip_ms}"),
            "HF_LEROBOT_HOME": str(scratch / f"lerobot-{round_trip_ms}"),
        }
        command = [str(python), "-m", "benchmarks.peers.lerobot_streaming"]
        command += ["owner/name", str(_BATCH), str(out)]
        with (scratch / "log").open("wb") as log:
            subprocess.run(command, env=variables, cwd=PROJECT, check=True, stdout=log, stderr=log)
        process.terminate()
        hub.shutdown()
    found = json.loads(out.read_text())
    return [
        _row("open", STREAMED, 1, (found["open_s"], 0.0)),
        _row("first batch, from the start", STREAMED, 1, (found["first_batch_s"], 0.0)),
        _row("first epoch", STREAMED, found["samples"], (found["epoch_s"], found["epoch_cpu_s"])),
    ]


def _datasets(scratch: Path, *, quick: bool) -> dict[str, Path]:
    from benchmarks.datasets import Shape, write_v30_metadata
    from roboreel.demo_arm import DemoSpec, make_demo_dataset

    arm = scratch / "arm"
    make_demo_dataset(arm, DemoSpec(episodes=2 if quick else 20, frames=40 if quick else 100))
    large = write_v30_metadata(scratch / "large", Shape(50 if quick else 1000))
    return {"arm": arm, "large": large}


def run(server: S3Server, scratch: Path, round_trips_ms: list[int], *, quick: bool) -> list[Row]:
    """Print a line of figures for each row; return the rows."""
    datasets = _datasets(scratch, quick=quick)
    urls = {name: server.upload(root, name) for name, root in datasets.items()}
    rows: list[Row] = []
    for round_trip_ms in round_trips_ms:
        port, process = _proxy(server.port, round_trip_ms)
        options = server.options_through(port)
        mirror = scratch / f"mirror-{round_trip_ms}"
        found = [_open_large(urls["large"], options, mirror)]
        found += _measure(urls["arm"], options, mirror, datasets["arm"])
        found.append(_download(urls["arm"], options, scratch / f"copy-{round_trip_ms}"))
        process.terminate()
        found += _stream(datasets["arm"], round_trip_ms, scratch)
        versions = {name: version(name) for name in ("roboreel", "obstore", "av", "numpy")}
        order = list(dict.fromkeys(row.step for row in found))
        for row in sorted(found, key=lambda row: order.index(row.step)):
            scenario = f"{round_trip_ms} ms round trip"
            rows.append(replace(row, scenario=scenario, versions=versions))
            print(
                f"{scenario} · {row.step} · {row.contender}: {row.wall_s:.2f} s, "
                f"CPU {row.cpu_s:.2f} s {dict(row.notes) or ''}",
                flush=True,
            )
    return rows


def _kept(path: Path, measured: list[Row]) -> list[Row]:
    """Return the rows of a result that were not measured now."""
    if not path.exists():
        return []
    old = json.loads(path.read_text())["rows"]
    again = {row.scenario for row in measured}
    names = Row.__dataclass_fields__
    rows = [Row(**{name: row[name] for name in names}) for row in old]
    return [row for row in rows if row.scenario not in again]


def main() -> None:
    """Measure, print, and write the result unless it is a quick one."""
    from tests.remote.s3_server import SharedServer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small dataset; writes nothing")
    parser.add_argument("--only", type=int, nargs="*", help="round trips in ms")
    parser.add_argument("--out", type=Path, default=PROJECT / "benchmarks" / "results")
    given = parser.parse_args()
    origin = Origin.now()
    scratch = Path(tempfile.mkdtemp(prefix="roboreel-remote-"))
    try:
        with SharedServer(scratch) as server:
            rows = run(server, scratch, given.only or list(ROUND_TRIPS_MS), quick=given.quick)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if not given.quick:
        rows += _kept(given.out / "remote.json", rows)
        rows.sort(key=lambda row: int(row.scenario.split()[0]))
        report.write("remote", TITLE, rows, (PER_SECOND, PER_CPU_SECOND), given.out, origin)


if __name__ == "__main__":
    main()
