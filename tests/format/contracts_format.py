"""What every version of the format promises, and every way to record images."""

import shutil
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import roboreel as reel
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.errors import MissingFileError
from roboreel.format import read_manifest
from tests.video_factory import HEIGHT, WIDTH, number_of, numbered_image

CAMERA = "observation.images.front"
SPEC = DemoSpec(episodes=3, frames=8, cameras=1, size=(48, 64), codec="h264")


def write_versions(root):
    """Write the same episodes in every version."""
    for version in ("2.0", "2.1", "3.0"):
        make_demo_dataset(root / version, replace(SPEC, version=version))
    return root


class FormatContract:
    """The same episodes, whatever the version; ``versions`` is the folder of `write_versions`."""

    version: str

    @pytest.fixture
    def dataset(self, versions):
        return reel.open_dataset(versions / self.version)

    @pytest.fixture
    def reference(self, versions):
        return reel.open_dataset(versions / "3.0")

    def test_the_version_is_known_and_nothing_is_wrong(self, dataset):
        assert dataset.manifest.version == f"v{self.version}"
        assert dataset.problems == ()

    def test_episodes_tasks_and_features_are_the_same(self, dataset, reference):
        assert [e.length for e in dataset.episodes] == [e.length for e in reference.episodes]
        assert [e.tasks for e in dataset.episodes] == [e.tasks for e in reference.episodes]
        assert dict(dataset.tasks) == dict(reference.tasks)
        assert dict(dataset.features) == dict(reference.features)
        assert (dataset.fps, len(dataset)) == (reference.fps, len(reference))

    def test_all_values_are_the_same(self, dataset, reference):
        ours, theirs = (source.read(range(len(source))) for source in (dataset, reference))
        assert ours.keys() == theirs.keys()
        for name, values in ours.items():
            if name != CAMERA:
                assert np.array_equal(values, theirs[name]), name

    def test_every_image_is_that_of_its_row(self, dataset, reference):
        ours, theirs = (source.read(range(len(source)))[CAMERA] for source in (dataset, reference))
        # x264 does not always make the same bytes, but no other image is nearer than the right one.
        for row, image in enumerate(ours):
            distances = np.abs(theirs.astype(int) - image).mean(axis=(1, 2, 3))
            assert distances[row] <= distances.min() + 0.1

    def test_statistics_are_those_of_the_values(self, dataset):
        computed = dataset.compute_stats()
        for name in ("action", "observation.state"):
            assert np.allclose(dataset.stats[name].mean, computed[name].mean, atol=1e-5)
            assert np.allclose(dataset.stats[name].max, computed[name].max, atol=1e-5)

    def test_metadata_alone_is_enough_to_open_and_a_missing_file_is_named(self, dataset, tmp_path):
        root = shutil.copytree(dataset.path, tmp_path / "d")
        for folder in ("data", "videos"):
            shutil.rmtree(root / folder)
        opened = reel.open_dataset(root)
        assert len(opened) == len(dataset)
        for feature in ("action", CAMERA):
            with pytest.raises(MissingFileError, match=r"episode.*(parquet|mp4)|(parquet|mp4)"):
                opened.read([0], [feature])

    def test_its_files_are_where_the_manifest_says(self, dataset):
        manifest = read_manifest(dataset.path)
        for files in (manifest.data_files, manifest.video_files[CAMERA]):
            assert len(files)
            assert all((dataset.path / files[file]).is_file() for file in range(len(files)))


def frame_of(number):
    return {"action": np.full(1, number, np.float32), CAMERA: numbered_image(number)}


class RecordedImagesContract:
    """What a recorder promises of its cameras, however it stores them."""

    store: Literal["video", "image"]

    def create(self, root):
        features = {
            "action": reel.Feature("float32", (1,)),
            CAMERA: reel.Feature("video", (HEIGHT, WIDTH, 3)),
        }
        return reel.create_dataset(
            root, fps=30, features=features, store=self.store, encoding=reel.Encoding("h264")
        )

    def record(self, recorder, numbers):
        for number in numbers:
            recorder.add_frame(frame_of(number), task="count")
        recorder.save_episode()

    def numbers(self, root):
        images = reel.open_dataset(root).read(range(len(reel.open_dataset(root))), layout="hwc")
        return [number_of(image) for image in images[CAMERA]], images["action"].ravel().tolist()

    def test_images_come_back_in_order_beside_their_numbers(self, tmp_path):
        with self.create(tmp_path / "d") as recorder:
            self.record(recorder, range(7))
            self.record(recorder, range(20, 25))
        expected = [*range(7), *range(20, 25)]
        assert self.numbers(tmp_path / "d") == (expected, expected)

    def test_a_saved_episode_can_be_read_before_the_recorder_is_closed(self, tmp_path):
        with self.create(tmp_path / "d") as recorder:
            self.record(recorder, range(5))
            assert self.numbers(tmp_path / "d")[0] == list(range(5))

    def test_a_discarded_episode_leaves_nothing(self, tmp_path):
        with self.create(tmp_path / "d") as recorder:
            recorder.add_frame(frame_of(9), task="count")
            recorder.discard_episode()
            self.record(recorder, range(3))
        assert self.numbers(tmp_path / "d")[0] == [0, 1, 2]

    def test_recording_goes_on_in_another_session(self, tmp_path):
        with self.create(tmp_path / "d") as recorder:
            self.record(recorder, range(4))
        with reel.resume_dataset(tmp_path / "d", encoding=reel.Encoding("h264")) as recorder:
            self.record(recorder, range(30, 33))
        assert self.numbers(tmp_path / "d")[0] == [0, 1, 2, 3, 30, 31, 32]
