"""Importing: pictures, RLDS episodes and raw pixels, beside reading, copying or encoding alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.harness import OURS, Benchmark, Case, Settings
from benchmarks.results import CPU_MS, PEAK_MB, WALL_MS, note
from roboreel.image import encode_jpeg
from tests.importing import foreign

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.importing.ros_files import Sent

__all__ = ["BENCHMARK"]

READING = "reading and hashing the file"
COPYING = "reading, checksums, and writing the bytes"
ENCODING = "the encoder alone, from memory"


def cases(settings: Settings) -> list[Case]:
    """Make the recordings and list who reads them."""
    folder = settings.scratch / "recordings"
    folder.mkdir()
    megabytes = 1 if settings.quick else 1000
    less, frames = (1, 20) if settings.quick else (250, 400)
    read, copy, encode = (READING, "read"), (COPYING, "copy_checked"), (ENCODING, "encode")
    jpeg = "of JPEG 640x480"
    made = [
        (f"MCAP, {megabytes:,} MB {jpeg}", write_mcap(folder, megabytes), read),
        (f"ROS 1 bag, {megabytes:,} MB {jpeg}", write_bag(folder, megabytes), read),
        (f"RLDS, {less:,} MB {jpeg}", write_rlds(folder, less), copy),
        (f"HDF5, {frames} images of raw pixels", write_hdf5(folder, frames), encode),
        (f"MCAP, {frames} images of raw pixels", write_raw_mcap(folder, frames), encode),
    ]
    listed = []
    for scenario, path, beside in made:
        arguments = {"path": str(path), "out": str(settings.scratch / "out")}
        for contender, function in ((OURS, "bring"), beside):
            further = {"frames": frames} if function == "encode" else {}
            given = {**arguments, **further}
            listed.append(Case(scenario, contender, "benchmarks.cases.import_", function, given))
    return listed


def raw_pixels(frames: int) -> Iterator[NDArray[np.uint8]]:
    """Yield images that move a little from one to the next."""
    random = np.random.default_rng(0)
    small = random.integers(0, 255, (60, 120, 3), np.uint8)
    wide = np.kron(small, np.ones((8, 8, 1), np.uint8))
    for i in range(frames):
        yield np.ascontiguousarray(np.roll(wide, 2 * i, axis=1)[:, :640])


def pictures(count: int = 16) -> list[bytes]:
    """Return some pictures of about 60 kB, of noise and shapes as cameras see them."""
    random = np.random.default_rng(0)
    found = []
    for number in range(count):
        small = random.integers(0, 255, (60, 80, 3), np.uint8)
        pixels = np.kron(small, np.ones((8, 8, 1), np.uint8))
        noise = random.integers(-12, 12, pixels.shape)
        noisy = (pixels.astype(int) + noise).clip(0, 255).astype(np.uint8)
        noisy[: 20 * number % 480] //= 2
        found.append(encode_jpeg(noisy, quality=70))
    return found


def write_mcap(folder: Path, megabytes: int) -> Path:
    """Write an MCAP file, compressed with Zstandard."""
    from tests.importing.ros_files import write_mcap as write

    return write(folder / "run.mcap", _messages(megabytes), chunk_size=1024 * 1024)


def write_bag(folder: Path, megabytes: int) -> Path:
    """Write a bag of ROS 1, compressed with LZ4."""
    from tests.importing.ros_files import write_bag1 as write

    return write(folder / "run.bag", _messages(megabytes), compression="lz4")


def _messages(megabytes: int) -> Iterator[Sent]:
    """Yield messages of a camera at 30 Hz and of joints at 200 Hz."""
    from tests.importing.ros_files import START_NS, Sent, header

    known = pictures()
    seconds = max(1, round(megabytes * 1e6 / sum(map(len, known)) * len(known) / 30))
    joints = [f"joint_{number}" for number in range(7)]
    for tick in range(seconds * 600):
        now = START_NS + tick * 10**9 // 600
        if tick % 3 == 0:
            values = {"header": header(now), "name": joints, "position": [tick / 600] * 7}
            yield Sent("/joint_states", "sensor_msgs/msg/JointState", now, values)
        if tick % 20 == 0:
            data = known[tick // 20 % len(known)]
            values = {"header": header(now), "format": "jpeg", "data": data}
            yield Sent("/camera", "sensor_msgs/msg/CompressedImage", now, values)


def write_rlds(folder: Path, megabytes: int) -> Path:
    """Write episodes of 50 steps with a picture each."""
    path = foreign.write_rlds(folder / "rlds", (2,))
    for file in path.glob("*.tfrecord*"):
        file.unlink()
    known = pictures()
    lists = foreign.rlds_lists(range(50), "put the pot away")
    lists["steps/observation/image"] = [known[i % len(known)] for i in range(50)]
    record = foreign.tfrecord([foreign.example(lists)])
    count = max(1, round(megabytes * 1e6 / len(record)))
    with (path / "mine-train.tfrecord-00000-of-00001").open("wb") as written:
        for _ in range(count):
            written.write(record)
    return path


def write_hdf5(folder: Path, frames: int) -> Path:
    """Write one episode as ACT does without compression."""
    import h5py

    random = np.random.default_rng(0)
    path = folder / "raw.hdf5"
    with h5py.File(path, "w") as file:
        file["action"] = random.random((frames, 14)).astype("float32")
        file["observations/qpos"] = random.random((frames, 14)).astype("float32")
        shape = (frames, 480, 640, 3)
        camera = file.create_dataset(
            "observations/images/cam", shape, "uint8", chunks=(1, *shape[1:])
        )
        for i, image in enumerate(raw_pixels(frames)):
            camera[i] = image
    return path


def write_raw_mcap(folder: Path, frames: int) -> Path:
    """Write images as ROS has them without compression, at 30 Hz."""
    from tests.importing.ros_files import START_NS, Sent, header
    from tests.importing.ros_files import write_mcap as write

    def messages() -> Iterator[Sent]:
        for i, image in enumerate(raw_pixels(frames)):
            now = START_NS + i * 10**9 // 30
            values = {
                "header": header(now),
                "height": 480,
                "width": 640,
                "encoding": "rgb8",
                "is_bigendian": 0,
                "step": 640 * 3,
                "data": image.reshape(-1),
            }
            yield Sent("/camera", "sensor_msgs/msg/Image", now, values)

    return write(folder / "raw.mcap", messages(), chunk_size=4 * 1024 * 1024)


BENCHMARK = Benchmark(
    "import",
    "Importing recordings",
    cases,
    rounds=1,
    columns=(WALL_MS, CPU_MS, PEAK_MB, note("megabytes", "MB of the source")),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
