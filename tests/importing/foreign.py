"""Recordings of other formats, made by the formats' own writers; every value tells its row."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from roboreel.image import encode_jpeg, encode_png
from roboreel.importing.tf_example import masked_crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SIZE = (24, 32)


def image(row: int) -> np.ndarray:
    """An image with its row in every pixel, and an orientation."""
    pixels = np.full((*SIZE, 3), (row * 7) % 200, np.uint8)
    pixels[: SIZE[0] // 2, :, 0] += 20
    return pixels


def images(rows: range) -> np.ndarray:
    return np.stack([image(row) for row in rows])


def jpeg(row: int) -> bytes:
    return encode_jpeg(image(row), quality=80 + row % 10)


def png(row: int) -> bytes:
    return encode_png(image(row))


def numbers(rows: range, width: int, scale: float = 1.0) -> np.ndarray:
    return (np.arange(rows.start, rows.stop)[:, None] * scale + np.arange(width)).astype(np.float32)


def padded(pictures: list[bytes]) -> np.ndarray:
    longest = max(map(len, pictures))
    return np.stack([np.frombuffer(p.ljust(longest, b"\0"), np.uint8) for p in pictures])


def write_act(path, length=6, *, compress=True):
    import h5py

    rows = range(length)
    with h5py.File(path, "w") as file:
        file.attrs["sim"] = False
        file.attrs["compress"] = compress
        file["action"] = numbers(rows, 14, 10)
        observed = file.create_group("observations")
        observed["qpos"] = numbers(rows, 14)
        observed["qvel"] = numbers(rows, 14, 2)
        cameras = observed.create_group("images")
        for name in ("cam_high", "cam_low"):
            pictures = [jpeg(row) for row in rows]
            if compress:
                cameras.create_dataset(name, data=padded(pictures), chunks=True)
            else:
                cameras.create_dataset(name, data=images(rows), chunks=(1, *SIZE, 3))
        if compress:
            file["compress_len"] = np.array([[len(jpeg(row)) for row in rows]] * 2)
    return path


def write_robomimic(path, lengths=(5, 3), *, libero=False):
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        kwargs = {"control_freq": 20}
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": kwargs})
        if libero:
            said = {"language_instruction": "put the bowl on the plate"}
            data.attrs["problem_info"] = json.dumps(said)
            data.attrs["bddl_file_name"] = "a.bddl"
        start = 0
        # demo_10 sorts behind demo_9 by number only.
        for name, length in zip(("demo_9", "demo_10"), lengths, strict=True):
            rows = range(start, start + length)
            demo = data.create_group(name)
            demo.attrs["num_samples"] = length
            demo["actions"] = numbers(rows, 7, 10).astype(np.float64)
            demo["dones"] = np.array([row == rows[-1] for row in rows], np.int64)
            demo["rewards"] = numbers(rows, 1)[:, 0].astype(np.float64)
            demo["states"] = numbers(rows, 32)
            obs = demo.create_group("obs")
            if libero:
                for camera in ("agentview_rgb", "eye_in_hand_rgb"):
                    obs.create_dataset(camera, data=images(rows), compression="gzip")
                obs["ee_states"] = numbers(rows, 6)
                obs["gripper_states"] = numbers(rows, 2, 3)
            else:
                obs["agentview_image"] = images(rows)
                obs["robot0_eef_pos"] = numbers(rows, 3)
                obs["robot0_eef_quat"] = numbers(rows, 4, 2)
                obs["robot0_gripper_qpos"] = numbers(rows, 2, 3)
                obs["object"] = numbers(rows, 10)
                demo.create_group("next_obs")["robot0_eef_pos"] = numbers(rows, 3)
            start += length
        mask = file.create_group("mask")
        mask["train"] = np.array([b"demo_9"])
        mask["valid"] = np.array([b"demo_10"])
    return path


def write_plain_hdf5(path, lengths=(4, 3)):
    import h5py

    start = 0
    with h5py.File(path, "w") as file:
        for number, length in enumerate(lengths):
            rows = range(start, start + length)
            episode = file.create_group(f"episode_{number}")
            episode.attrs["language_instruction"] = f"task {number}"
            episode.attrs["operator"] = "ada"
            episode["action"] = numbers(rows, 2)
            episode["timestamp"] = np.arange(length) / 25.0
            episode["state"] = numbers(rows, 3).astype(">f8")
            vlen = h5py.vlen_dtype(np.uint8)
            camera = episode.create_dataset("rgb", (length,), dtype=vlen)
            for place, row in enumerate(rows):
                camera[place] = np.frombuffer(png(row), np.uint8)
            episode["depth"] = np.full((length, 16, 20), 1000, np.uint16) + start
            start += length
    return path


def write_zarr(path, lengths=(5, 4), *, version=2, zipped=False, umi=False, **compressor):
    import zarr
    import zarr.storage

    rows = range(sum(lengths))
    store = zarr.storage.ZipStore(str(path), mode="w") if zipped else None
    is_old = zarr.__version__.startswith("2.")
    formats = {} if is_old else {"zarr_format": version}
    top = zarr.open_group(str(path) if store is None else store, mode="w", **formats)
    data, meta = top.create_group("data"), top.create_group("meta")

    def add(group, name, array, chunks=None, compressors=()):
        chunks = chunks or array.shape
        if is_old:
            given = {"compressor": compressors[0]} if compressors else {}
            group.create_dataset(name, data=array, chunks=chunks, **given)
            return
        given = {"compressors": compressors} if compressors else {}
        made = group.create_array(
            name, shape=array.shape, dtype=array.dtype, chunks=chunks, **given
        )
        made[...] = array

    if umi:
        add(data, "camera0_rgb", images(rows), (1, *SIZE, 3), **compressor)
        add(data, "robot0_eef_pos", numbers(rows, 3))
        add(data, "robot0_eef_rot_axis_angle", numbers(rows, 3, 2))
        add(data, "robot0_gripper_width", numbers(rows, 1, 3))
    else:
        add(data, "img", images(rows).astype(np.float32), (4, *SIZE, 3))
        add(data, "state", numbers(rows, 5), (3, 5))
        add(data, "action", numbers(rows, 2, 10), (3, 2))
    add(meta, "episode_ends", np.cumsum(lengths).astype(np.int64))
    if store is not None:
        store.close()
    return path


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def feature(values) -> bytes:
    """A tf.train.Feature of bytes, floats or whole numbers."""
    if isinstance(values[0], bytes):
        return message(1, b"".join(message(1, value) for value in values))
    if np.asarray(values).dtype.kind == "f":
        return message(2, message(1, np.asarray(values, "<f4").tobytes()))
    return message(3, message(1, b"".join(varint(int(value)) for value in values)))


def example(lists) -> bytes:
    entries = [
        message(1, message(1, k.encode()) + message(2, feature(v))) for k, v in lists.items()
    ]
    return message(1, b"".join(entries))


def tfrecord(examples) -> bytes:
    out = b""
    for data in examples:
        length = struct.pack("<Q", len(data))
        out += length + struct.pack("<I", masked_crc32c(length))
        out += data + struct.pack("<I", masked_crc32c(data))
    return out


def tensor(dtype, *shape, encoding="none"):
    dimensions = {"dimensions": [str(size) for size in shape]} if shape else {}
    return {"tensor": {"shape": dimensions, "dtype": dtype, "encoding": encoding}}


STEP_FEATURES = {
    "observation": {
        "featuresDict": {
            "features": {
                "image": {
                    "image": {
                        "shape": {"dimensions": [str(SIZE[0]), str(SIZE[1]), "3"]},
                        "dtype": "uint8",
                        "encodingFormat": "jpeg",
                    }
                },
                "state": tensor("float32", 7),
            }
        }
    },
    "action": tensor("float32", 7),
    "reward": tensor("float32"),
    "discount": tensor("float32"),
    "is_first": tensor("bool"),
    "is_last": tensor("bool"),
    "is_terminal": tensor("bool"),
    "language_instruction": {"text": {}},
    "language_embedding": tensor("float32", 4),
    "level": tensor("int64"),
}
FEATURES = {
    "featuresDict": {
        "features": {
            "steps": {"sequence": {"feature": {"featuresDict": {"features": STEP_FEATURES}}}},
            "episode_metadata": {"featuresDict": {"features": {"file_path": {"text": {}}}}},
        }
    }
}


def rlds_lists(rows: range, said: str) -> dict[str, Any]:
    count = len(rows)
    return {
        "steps/observation/image": [jpeg(row) for row in rows],
        "steps/observation/state": numbers(rows, 7).reshape(-1),
        "steps/action": numbers(rows, 7, 10).reshape(-1),
        "steps/reward": np.zeros(count, np.float32),
        "steps/discount": np.ones(count, np.float32),
        "steps/is_first": [int(row == rows[0]) for row in rows],
        "steps/is_last": [int(row == rows[-1]) for row in rows],
        "steps/is_terminal": [int(row == rows[-1]) for row in rows],
        "steps/language_instruction": [said.encode()] * count,
        "steps/language_embedding": np.zeros(4 * count, np.float32),
        "steps/level": [-row for row in rows],
        "episode_metadata/file_path": [f"/raw/{rows[0]}.npy".encode()],
    }


def write_rlds(folder: Path, lengths: Sequence[int] = (4, 3, 5)) -> Path:
    folder.mkdir(parents=True)
    (folder / "features.json").write_text(json.dumps(FEATURES))
    start, examples = 0, []
    for number, length in enumerate(lengths):
        rows = range(start, start + length)
        examples.append(example(rlds_lists(rows, f"put {number}" if number != 1 else "")))
        start += length
    name = "bridge_dataset-train.tfrecord-0000{}-of-00002"
    (folder / name.format(0)).write_bytes(tfrecord(examples[:-1]))
    (folder / name.format(1)).write_bytes(tfrecord(examples[-1:]))
    return folder


def write_media(folder, lengths=(5, 4), *, video=True):
    from roboreel.video.encode import Encoding, encode_video

    start = 0
    for number, length in enumerate(lengths):
        rows = range(start, start + length)
        place = folder / f"episode_{number}"
        (place / "wrist").mkdir(parents=True)
        for row in rows:
            (place / "wrist" / f"{row}.png").write_bytes(png(row))
        if video:
            encoding = Encoding("h264", keyframe_distance=3)
            encode_video(place / "front.mp4", list(images(rows)), fps=10, encoding=encoding)
        lines = ["timestamp,action_0,action_1,gripper,note"]
        lines += [f"{i / 10},{row},{row + 0.5},{row % 2},row {row}" for i, row in enumerate(rows)]
        (place / "log.csv").write_text("\n".join(lines) + "\n")
        (place / "task.txt").write_text("stack the cups\n")
        start += length
    return folder
