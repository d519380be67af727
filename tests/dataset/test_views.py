"""What a view says of itself, and how datasets print."""

import re

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import NotADatasetError
from roboreel.schema import Feature
from tests.factory import NUMBERS, TASKS, write_dataset

LENGTHS = [3, 1, 5]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("arm")
    write_dataset(root, LENGTHS)
    return reel.open_dataset(root)


class TestTasks:
    def test_a_view_has_the_tasks_of_its_episodes(self, dataset):
        assert dataset.tasks == TASKS
        assert dataset.select([0, 2]).tasks == {0: TASKS[0]}
        assert dataset.select([1]).tasks == {1: TASKS[1]}
        assert dataset.select(range(3)).tasks == TASKS
        assert dataset.select([]).tasks == {}

    def test_episodes_that_name_no_task_may_have_any(self, tmp_path):
        import pyarrow.parquet as pq

        write_dataset(tmp_path, LENGTHS)
        path = tmp_path / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
        pq.write_table(pq.read_table(path).drop_columns(["tasks"]), path)
        view = reel.open_dataset(tmp_path).select([1])
        assert view.episodes[0].tasks == ()
        assert view.tasks == TASKS


class TestStatistics:
    def test_those_of_a_view_are_of_its_frames(self, dataset):
        view = dataset.select([1, 2])
        rows = np.arange(3, 9)
        assert view.stats["action"].mean.tolist() == [rows.mean() * 100, rows.mean() * 100 + 1]
        assert view.stats["action"].count.tolist() == [6, 6]
        computed = view.compute_stats()
        assert view.stats.keys() == computed.keys()
        assert all(view.stats[n].mean.tolist() == computed[n].mean.tolist() for n in computed)

    def test_a_view_of_everything_has_those_of_the_dataset(self, dataset):
        stored = dataset.stats
        view = dataset.select(range(3))
        assert view.stats.keys() == stored.keys()
        assert view.stats["action"].mean.tolist() == stored["action"].mean.tolist()

    def test_a_mixture_of_views_is_normalized_by_those_of_the_views(self, dataset):
        view = dataset.select([2])
        mixture = reel.Mixture({view: 1.0}, normalize={"action": "min_max"})
        actions = mixture.read(range(5), ["action"])["action"]
        assert (actions.min(), actions.max()) == (-1, 1)


class TestPrinting:
    def test_a_dataset_prints_what_it_is(self, dataset):
        path = str(dataset.path)
        assert repr(dataset) == f"Dataset({path!r}, 3 episodes, 9 frames, 30 fps, v3.0)"
        view = dataset.select([0, 2])
        assert repr(view) == f"Dataset({path!r}, 2 of 3 episodes, 8 frames, 30 fps, v3.0)"

    def test_a_mixture_prints_its_shares(self, dataset):
        mixture = reel.Mixture({dataset: 0.7, dataset.select([0]): 0.3})
        name = dataset.path.name
        assert repr(mixture) == f"Mixture({name}: 0.7, {name}: 0.3, 12 samples)"

    def test_a_notebook_shows_a_table_of_the_features(self, dataset):
        html = dataset.select([0, 2])._repr_html_()
        assert "2 of 3 episodes, 8 frames" in html
        rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>", html)
        assert ("observation.state", "float32", "3", "x, y, z") in rows
        assert ("grid", "float64", "2 x 3", "") in rows
        assert len(rows) == len(dataset.features)

    def test_names_from_a_file_cannot_become_markup(self, tmp_path):
        names = tuple(f"<b>{i}</b>" for i in range(20))
        features = {"<script>": Feature("float32", (20,), names=names), **NUMBERS}
        write_dataset(tmp_path / "<i>", [2], features=features)
        html = reel.open_dataset(tmp_path / "<i>")._repr_html_()
        assert "&lt;script&gt;" in html
        assert "… 12 more" in html
        assert not re.search(r"<(script|i|b)>(?!Dataset)", html)

    def test_samples_and_loaders_print_what_they_are(self, dataset):
        pytest.importorskip("torch")
        from roboreel.torch import Loader, Local, SampleDataset

        samples = SampleDataset(dataset, {"action": range(2)}, features=["index"])
        spec = "SampleSpec(features=('index',), windows={'action': Window(frames=(0, 1))}, "
        assert (
            repr(samples)
            == f"SampleDataset({dataset!r}, 9 samples, {spec}layout='chw')"[:-1] + "))"
        )
        loader = Loader(samples, 4, shuffle=Local(block=2), seed=3)
        assert repr(loader) == (
            f"Loader({samples!r}, 2 batches of 4, shuffle=Local(block=2, buffer=16), seed=3, "
            "at epoch 0)"
        )
        assert "rank 1 of 2" in repr(Loader(dataset, 2, rank=1, world_size=2))


class TestOpening:
    def test_the_id_of_a_dataset_on_the_hub_is_told_how_to_write_it(self):
        with pytest.raises(NotADatasetError, match="write 'hf://datasets/lerobot/pusht'"):
            reel.open_dataset("lerobot/pusht")

    @pytest.mark.parametrize("path", ["hf://lerobot/pusht", "hf://lerobot/pusht@v3.0/"])
    def test_an_address_without_datasets_is_told_how_to_write_it(self, path):
        right = path.rstrip("/").replace("hf://", "hf://datasets/")
        with pytest.raises(NotADatasetError, match=rf"at '{path}': write '{right}'"):
            reel.open_dataset(path)

    def test_addresses_elsewhere_are_not_taken_for_folders(self):
        with pytest.raises(NotADatasetError, match="at 'ftp://host/arm': give a folder"):
            reel.open_dataset("ftp://host/arm")

    def test_nothing_is_written_to_an_address(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(NotADatasetError, match="not 'hf://datasets/owner/name'"):
            reel.create_dataset("hf://datasets/owner/name", fps=30, features={})
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("path", ["arm", "../data/arm", "/data/arm", "./arm"])
    def test_other_paths_are_not_taken_for_one(self, path):
        with pytest.raises(NotADatasetError) as caught:
            reel.open_dataset(path)
        assert "hf://" not in str(caught.value)

    def test_a_folder_that_is_there_is_not_taken_for_one(self, tmp_path, monkeypatch):
        (tmp_path / "owner" / "name").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(NotADatasetError) as caught:
            reel.open_dataset("owner/name")
        assert "hf://" not in str(caught.value)
