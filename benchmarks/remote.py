"""Remote datasets at several round trips: ``python -m benchmarks.remote [--quick]``.

An S3 server (SeaweedFS) and a proxy that delays every chunk run on this machine, on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.s3_server import S3Server

__all__ = ["main"]

ROUND_TRIPS_MS = (0, 30, 100)
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


def _measure(url: str, options: dict[str, Any], mirror: Path, near: Path) -> dict[str, float]:
    """Open a dataset, take the first batch, and two epochs; beside the local one."""
    import roboreel as reel
    from roboreel.loading import Loader

    found: dict[str, float] = {}
    started = time.perf_counter()
    far = reel.open_dataset(url, mirror=mirror, storage_options=options)
    found["open_s"] = time.perf_counter() - started
    assert far.fetched is not None
    found["open_requests"] = far.fetched.requests + 1  # and the list
    first = True
    for epoch in ("first", "second"):
        begun, cpu = time.perf_counter(), time.process_time()
        for _ in Loader(far, _BATCH, shuffle=True, seed=1):
            if first:
                found["first_batch_s"], first = time.perf_counter() - started, False
        found[f"{epoch}_epoch_s"] = time.perf_counter() - begun
        found[f"{epoch}_epoch_cpu_s"] = time.process_time() - cpu
    local = reel.open_dataset(near)
    begun, cpu = time.perf_counter(), time.process_time()
    for _ in Loader(local, _BATCH, shuffle=True, seed=1):
        pass
    found["local_epoch_s"] = time.perf_counter() - begun
    found["local_epoch_cpu_s"] = time.process_time() - cpu
    fetched = far.fetched
    found["kb_per_sample"] = fetched.fetched_bytes / len(far) / 1e3
    found["requests_per_sample"] = fetched.requests / len(far)
    found["fetched_share"] = fetched.fetched_bytes / sum(
        path.stat().st_size for path in near.rglob("*") if path.is_file()
    )
    return found


def _download(url: str, options: dict[str, Any], out: Path) -> float:
    """Return how long it takes to fetch all files first, 16 at a time."""
    import obstore
    from obstore.store import from_url

    store: Any = from_url(url, client_options={"allow_http": True}, **options)
    started = time.perf_counter()
    names = [str(entry["path"]) for page in obstore.list(store) for entry in page]

    def fetch(name: str) -> None:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(obstore.get(store, name).bytes())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(fetch, names))
    return time.perf_counter() - started


def _open_large(url: str, options: dict[str, Any], mirror: Path) -> tuple[float, int]:
    import roboreel as reel

    started = time.perf_counter()
    far = reel.open_dataset(url, mirror=mirror, storage_options=options)
    taken = time.perf_counter() - started
    assert far.fetched is not None
    return taken, far.fetched.requests + 1


def _datasets(scratch: Path, *, quick: bool) -> dict[str, Path]:
    from benchmarks.datasets import Shape, write_v30_metadata
    from roboreel.demo_arm.make import make_demo_dataset
    from roboreel.demo_arm.spec import DemoSpec

    arm = scratch / "arm"
    make_demo_dataset(arm, DemoSpec(episodes=2 if quick else 20, frames=40 if quick else 100))
    large = write_v30_metadata(scratch / "large", Shape(50 if quick else 1000))
    return {"arm": arm, "large": large}


def run(server: S3Server, scratch: Path, *, quick: bool) -> None:
    """Print a row of figures for each round trip."""
    datasets = _datasets(scratch, quick=quick)
    urls = {name: server.upload(root, name) for name, root in datasets.items()}
    for round_trip_ms in ROUND_TRIPS_MS:
        port, process = _proxy(server.port, round_trip_ms)
        options = server.options_through(port)
        mirror = scratch / f"mirror-{round_trip_ms}"
        row: dict[str, Any] = {"round_trip_ms": round_trip_ms}
        row["open_1000_s"], row["open_1000_requests"] = _open_large(urls["large"], options, mirror)
        row |= _measure(urls["arm"], options, mirror, datasets["arm"])
        row["download_s"] = _download(urls["arm"], options, scratch / f"copy-{round_trip_ms}")
        process.terminate()
        print(json.dumps({name: round(float(value), 4) for name, value in row.items()}), flush=True)


def main() -> None:
    """Measure, and print a line of JSON for each round trip."""
    from tests.s3_server import SharedServer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small dataset")
    quick = parser.parse_args().quick
    scratch = Path(tempfile.mkdtemp(prefix="roboreel-remote-"))
    try:
        with SharedServer(scratch) as server:
            run(server, scratch, quick=quick)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
