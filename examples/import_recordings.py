"""Import a small recording of each kind: HDF5, Zarr, RLDS, MCAP, and a folder of pictures."""

import json
import struct
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import roboreel as reel
from roboreel.image import encode_jpeg, encode_png
from roboreel.importing import Changes, import_dataset
from roboreel.importing.tf_example import masked_crc32c

FRAMES = 12
RANDOM = np.random.default_rng(0)


def pixels(number: int) -> np.ndarray:
    """An image that tells its number."""
    return np.full((48, 64, 3), 10 * number, np.uint8)


def write_hdf5(folder: Path) -> Path:
    """One episode as ALOHA's recorder writes it, with JPEG pictures padded to one length."""
    import h5py

    pictures = [encode_jpeg(pixels(i)) for i in range(FRAMES)]
    longest = max(map(len, pictures))
    path = folder / "episode_0.hdf5"
    with h5py.File(path, "w") as file:
        file.attrs["compress"] = True
        file["action"] = RANDOM.random((FRAMES, 14)).astype("float32")
        file["observations/qpos"] = RANDOM.random((FRAMES, 14)).astype("float32")
        padded = [np.frombuffer(p.ljust(longest, b"\0"), np.uint8) for p in pictures]
        file["observations/images/cam_high"] = np.stack(padded)
    return path


def write_zarr(folder: Path) -> Path:
    """Two episodes one after the other, as diffusion policy keeps them."""
    import zarr

    path = folder / "replay.zarr"
    top = zarr.open_group(str(path), mode="w")
    arrays = {
        "data/img": np.stack([pixels(i) for i in range(FRAMES)]).astype("float32"),
        "data/action": RANDOM.random((FRAMES, 2)).astype("float32"),
        "meta/episode_ends": np.array([5, FRAMES]),
    }
    for name, array in arrays.items():
        top[name] = array
    return path


def write_rlds(folder: Path) -> Path:
    """One episode as TensorFlow Datasets stores it; no TensorFlow is needed to write it either."""

    def field(number: int, data: bytes) -> bytes:
        size, head = len(data), bytearray([number << 3 | 2])
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes([*head, size]) + data

    action = RANDOM.random((FRAMES, 7)).astype("<f4")
    images = b"".join(field(1, encode_jpeg(pixels(i))) for i in range(FRAMES))
    lists = {"steps/action": field(2, field(1, action.tobytes())), "steps/image": field(1, images)}
    entries = [field(1, field(1, name.encode()) + field(2, lists[name])) for name in lists]
    record = field(1, b"".join(entries))
    length = struct.pack("<Q", len(record))
    checks = [struct.pack("<I", masked_crc32c(part)) for part in (length, record)]
    path = folder / "mine" / "1.0.0"
    path.mkdir(parents=True)
    (path / "mine-train.tfrecord-00000-of-00001").write_bytes(
        length + checks[0] + record + checks[1]
    )
    tensor = {"tensor": {"shape": {"dimensions": ["7"]}, "dtype": "float32", "encoding": "none"}}
    image = {"image": {"shape": {"dimensions": ["48", "64", "3"]}, "dtype": "uint8"}}
    step = {"featuresDict": {"features": {"action": tensor, "image": image}}}
    steps = {"featuresDict": {"features": {"steps": {"sequence": {"feature": step}}}}}
    (path / "features.json").write_text(json.dumps(steps))
    return path


def write_mcap(folder: Path) -> Path:
    """Joints at 50 Hz and a camera at 10 Hz, as a ROS 2 recorder writes them."""
    from mcap_ros2.writer import Writer

    time = "builtin_interfaces/Time stamp\nstring frame_id\n"
    rule = f"{'=' * 80}\nMSG: std_msgs/Header\n{time}{'=' * 80}\nMSG: builtin_interfaces/Time\n"
    rule += "int32 sec\nuint32 nanosec\n"
    joints = "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n"
    joints += "float64[] effort\n"
    picture = "std_msgs/Header header\nstring format\nuint8[] data\n"
    path = folder / "run.mcap"
    with path.open("wb") as file, Writer(file) as writer:
        joint_state = writer.register_msgdef("sensor_msgs/msg/JointState", joints + rule)
        compressed = writer.register_msgdef("sensor_msgs/msg/CompressedImage", picture + rule)
        for i in range(FRAMES * 5):
            now = 1_700_000_000_000_000_000 + i * 20_000_000
            stamp = {"sec": now // 10**9, "nanosec": now % 10**9}
            header = {"stamp": stamp, "frame_id": "base"}
            state = {"header": header, "name": ["a", "b"], "position": [i / 10, -i / 10]}
            state |= {"velocity": [], "effort": []}
            writer.write_message("/joint_states", joint_state, state, now, now)
            if i % 5 == 0:
                data = {"header": header, "format": "jpeg", "data": encode_jpeg(pixels(i // 5))}
                writer.write_message("/camera", compressed, data, now, now)
    return path


def write_folder(folder: Path) -> Path:
    """A CSV table beside a folder of pictures."""
    path = folder / "run_1"
    (path / "wrist").mkdir(parents=True)
    for i in range(FRAMES):
        (path / "wrist" / f"{i:04d}.png").write_bytes(encode_png(pixels(i)))
    lines = ["timestamp,action_0,action_1", *(f"{i / 10},{i},{2 * i}" for i in range(FRAMES))]
    (path / "log.csv").write_text("\n".join(lines) + "\n")
    return path


KINDS: dict[str, tuple[str | None, Callable[[Path], Path], Changes]] = {
    "hdf5": ("h5py", write_hdf5, Changes(task="open the cup")),
    "zarr": ("zarr", write_zarr, Changes(fps=10, task="push the block")),
    "rlds": (None, write_rlds, Changes(fps=5, task="put the pot away")),
    "mcap": ("mcap_ros2", write_mcap, Changes(fps=10, task="wave")),
    "folder": (None, write_folder, Changes(task="stack the cups")),
}


def main(root: Path) -> None:
    """Write a recording of each kind whose library is there, and import it."""
    root.mkdir(parents=True, exist_ok=True)
    for name, (library, write, changes) in KINDS.items():
        if library is not None and find_spec(library) is None:
            print(f"{name}: {library} is not installed")
            continue
        made = import_dataset(write(root), root / "datasets" / name, changes=changes)
        dataset = reel.open_dataset(made.path)
        print(f"{name}: {made.episodes} episodes, {made.frames} frames, {list(dataset.features)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "recordings"))
