"""LeRobot opens every imported dataset, and finds the values and images of the recording."""

import json

import numpy as np
import pytest

from roboreel.image import decode_image
from roboreel.importing import Changes, import_dataset
from tests.importing import foreign
from tests.importing.foreign import image, jpeg, numbers, png
from tests.interop.lerobot_process import run_lerobot

pytestmark = pytest.mark.interop
pytest.importorskip("h5py")
pytest.importorskip("zarr")
pytest.importorskip("mcap")


def recordings(folder):
    """Yield name, recording, action of every row, a camera, and its images if they are exact."""
    pictures = [decode_image(jpeg(row)) for row in range(12)]
    source = foreign.write_act(folder / "a.hdf5")
    yield "act", source, numbers(range(6), 14, 10), "observation.images.cam_high", pictures
    source = foreign.write_robomimic(folder / "r.hdf5")
    yield "robomimic", source, numbers(range(8), 7, 10), "observation.images.agentview", None
    source = foreign.write_robomimic(folder / "l.hdf5", libero=True)
    yield "libero", source, numbers(range(8), 7, 10), "observation.images.agentview", None
    source = foreign.write_plain_hdf5(folder / "p.h5")
    exact = [decode_image(png(row)) for row in range(7)]
    yield "plain", source, numbers(range(7), 2), "observation.image", exact
    source = foreign.write_zarr(folder / "z.zarr")
    yield "zarr", source, numbers(range(9), 2, 10), "observation.image", None
    source = foreign.write_rlds(folder / "rlds")
    yield "rlds", source, numbers(range(12), 7, 10), "observation.image", pictures
    source = foreign.write_media(folder / "media")
    action = np.stack([np.arange(9), np.arange(9) + 0.5], axis=1)
    yield "media", source, action, "observation.images.front", None
    yield "mcap", _mcap(folder / "m.mcap"), None, "observation.images.camera", None


def _mcap(path):
    from tests.importing.test_import_timed import run, write

    return write(path, *run())


@pytest.mark.parametrize("lerobot", ["0.4.4", "0.6.1"])
def test_lerobot_reads_what_was_imported(lerobot, tmp_path):
    made = {}
    for name, source, action, camera, pictures in recordings(tmp_path):
        fps = 10 if name in ("zarr", "rlds") else None
        done = import_dataset(source, tmp_path / "out" / name, changes=Changes(fps=fps, task="x"))
        made[name] = (done, action, camera, pictures)
    jobs = [
        {
            "arguments": {"root": str(done.path), "video_backend": "pyav"},
            "rows": list(range(done.frames)),
            "out": str(tmp_path / f"{name}.npz"),
        }
        for name, (done, *_) in made.items()
    ]
    (tmp_path / "job.json").write_text(json.dumps(jobs))
    run_lerobot(lerobot, tmp_path, "tests.interop.lerobot_items", tmp_path / "job.json")
    for name, (done, action, camera, pictures) in made.items():
        with np.load(tmp_path / f"{name}.npz") as found:
            assert int(found["len"]) == done.frames
            for row in range(done.frames):
                if action is not None:
                    assert np.array_equal(found[f"{row}/action"], action[row]), (name, row)
                shown = found[f"{row}/{camera}"].transpose(1, 2, 0)
                if pictures is not None:
                    assert np.array_equal(shown, pictures[row]), (name, row)
                elif name not in ("mcap", "libero"):
                    assert np.abs(shown.astype(int) - image(row)).mean() < 5, (name, row)
