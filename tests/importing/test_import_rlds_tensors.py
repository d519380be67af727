"""Steps of RLDS whose images and joints are tensors and sequences."""

from __future__ import annotations

import json
import zlib

import numpy as np

from roboreel.importing import open_recording, plan_import
from tests.importing.foreign import example, tensor, tfrecord

LENGTH, SIZE = 3, (16, 24)
DEPTH = np.arange(LENGTH * 16 * 24, dtype=np.float32).reshape(LENGTH, *SIZE)
COLOURS = (np.arange(LENGTH * 16 * 24 * 3) % 256).astype(np.uint8).reshape(LENGTH, *SIZE, 3)
STEP = {
    "action": tensor("float32", 2),
    "depth": tensor("float32", *SIZE),
    "depth_packed": tensor("uint16", *SIZE, 1, encoding="zlib"),
    "colours": tensor("uint8", *SIZE, 3),
    "joints": {"sequence": {"feature": tensor("float32"), "length": "7"}},
    "points": {"sequence": {"feature": tensor("float32"), "length": "-1"}},
}


def write(folder):
    folder.mkdir()
    steps = {"sequence": {"feature": {"featuresDict": {"features": STEP}}}}
    described = {"featuresDict": {"features": {"steps": steps}}}
    (folder / "features.json").write_text(json.dumps(described))
    lists = {
        "steps/action": np.zeros(2 * LENGTH, np.float32),
        "steps/depth": DEPTH.reshape(-1),
        "steps/depth_packed": [zlib.compress(d.astype(np.uint16).tobytes()) for d in DEPTH],
        "steps/colours": COLOURS.reshape(-1).tolist(),
        "steps/joints": np.arange(7 * LENGTH, dtype=np.float32),
    }
    (folder / "lab-train.tfrecord-00000-of-00001").write_bytes(tfrecord([example(lists)]))
    return folder


def test_tensors_that_are_images_become_cameras(tmp_path):
    rows = np.array([0, 2])
    with open_recording(write(tmp_path / "a")) as recording:
        names = ("depth", "depth_packed", "colours", "joints")
        read = recording.read(0, dict.fromkeys(names, rows))
        values = {name: np.asarray(of) for name, of in read.items()}
        streams = recording.streams
    assert (streams["depth"].depth_unit, streams["depth_packed"].depth_unit) == ("m", "mm")
    assert (values["depth"][..., 0] == DEPTH[rows]).all()
    assert (values["depth_packed"][..., 0] == DEPTH[rows].astype(np.uint16)).all()
    assert (values["colours"] == COLOURS[rows]).all()
    assert streams["colours"].kind == "images"


def test_a_sequence_of_fixed_length_is_a_vector(tmp_path):
    with open_recording(write(tmp_path / "a")) as recording:
        recording.fps = 10
        plan = plan_import(recording)
        values = np.asarray(recording.read(0, {"joints": np.arange(LENGTH)})["joints"])
    assert plan.features["observation.joints"].feature.shape == (7,)
    assert values[1].tolist() == list(range(7, 14))
    assert "points" in plan.unmapped
