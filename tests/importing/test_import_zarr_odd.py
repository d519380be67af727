"""Zarr stores with arrays that zarr itself cannot read."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from roboreel.errors import CorruptFileError
from roboreel.importing import open_recording

zarr = pytest.importorskip("zarr")
if int(zarr.__version__.split(".")[0]) < 3:
    pytest.skip("zarr 2 writes one format only", allow_module_level=True)


def write(path, version):
    """A store as diffusion policy has it, with arrays of a type and a codec that nobody knows."""
    top = zarr.open_group(path, mode="w", zarr_format=version)
    for name in ("data/action", "data/odd_type", "data/odd_codec"):
        top.create_array(name, data=np.arange(12, dtype=np.float32).reshape(6, 2))
    top.create_array("meta/episode_ends", data=np.array([2, 6]))
    if version == 2:
        change(path / "data/odd_type/.zarray", dtype="|Q9")
        change(path / "data/odd_codec/.zarray", compressor={"id": "nobodys"})
    else:
        change(path / "data/odd_type/zarr.json", data_type="bfloat16")
        change(path / "data/odd_codec/zarr.json", codecs=[{"name": "nobodys"}])
    return path


def change(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("zipped", [False, True])
def test_an_array_that_zarr_cannot_read_is_left_out_with_the_reason(tmp_path, version, zipped):
    path = write(tmp_path / "a.zarr", version)
    if zipped:
        path = shutil.make_archive(str(path), "zip", path)
    with open_recording(path) as recording:
        assert [episode.length for episode in recording.episodes] == [2, 4]
        assert recording.streams["odd_type"].kind == "other"
        assert "zarr cannot read it" in recording.streams["odd_codec"].note
        values = np.asarray(recording.read(1, {"action": np.arange(4)})["action"])
    assert values[:, 0].tolist() == [4, 6, 8, 10]


def test_metadata_that_is_damaged_is_an_error(tmp_path):
    path = write(tmp_path / "a.zarr", 2)
    (path / "data/action/.zarray").write_text('{"zarr_format": 2, ')
    with pytest.raises(CorruptFileError, match=r"The metadata of 'data/action'"):
        open_recording(path)


def test_a_link_to_another_folder_is_listed_and_not_followed(tmp_path):
    path = write(tmp_path / "a.zarr", 2)
    (path / "data/link").symlink_to(path / "data/action")
    with open_recording(path) as recording:
        assert "not followed" in recording.streams["link"].note
