"""Metadata of episodes: further columns, statistics, subtasks."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.errors import FeatureNotFoundError
from roboreel.format.lines_v2 import EpisodeLines
from roboreel.format.statistics import read_episode_stats
from roboreel.format.tables_v3 import EpisodeTables
from tests import wild_metadata, wild_tables
from tests.clean import LENGTHS, VERSIONS, clean_dataset
from tests.surgery import Folder


def expected(episode):
    even = episode % 2 == 0
    return {
        "success": even,
        "operator": f"station-{episode}",
        "scene": {"lights": episode} if even else None,
        "score": episode / 2,
    }


@pytest.fixture(params=VERSIONS)
def described(request, tmp_path):
    wild_metadata.episode_columns.make(tmp_path / "described", request.param)
    return tmp_path / "described"


# --- reading ------------------------------------------------------------------------------------


def test_an_episode_has_what_the_metadata_says_of_it(described):
    dataset = reel.open_dataset(described)
    assert [episode.metadata for episode in dataset.episodes] == [
        expected(episode) for episode in range(len(LENGTHS))
    ]


def test_a_column_is_an_array_over_the_episodes_of_the_view(described):
    view = reel.open_dataset(described).select([1, 2, 5])
    columns = view.episodes.metadata
    assert list(columns) == ["success", "operator", "scene", "score"]
    assert columns["success"].dtype == bool
    assert columns["success"].tolist() == [False, True, False]
    assert columns["score"].dtype == np.float64
    assert columns["score"].tolist() == [0.5, 1.0, 2.5]
    assert columns["operator"].tolist() == ["station-1", "station-2", "station-5"]
    assert columns["scene"].tolist() == [None, {"lights": 2}, None]
    assert view.episodes[1].metadata == expected(2)


def test_episodes_are_chosen_by_their_metadata(described):
    dataset = reel.open_dataset(described)
    chosen = dataset.filter(lambda episode: episode.metadata["success"])
    assert chosen.episodes.numbers.tolist() == [0, 2, 4]
    numbers = dataset.episodes.numbers[dataset.episodes.metadata["success"]]
    assert dataset.select(numbers).episodes.numbers.tolist() == [0, 2, 4]


def test_opening_does_not_read_the_metadata_of_episodes(described, monkeypatch):
    def fail(*_):
        raise AssertionError("read")

    for source in (EpisodeTables, EpisodeLines):
        monkeypatch.setattr(source, "entries", fail)
    dataset = reel.open_dataset(described)
    dataset.read([0], ["action", "task"])
    with pytest.raises(AssertionError, match="read"):
        _ = dataset.episodes[0].metadata


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dataset_without_further_columns_has_no_metadata(version, tmp_path):
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", version))
    assert dataset.episodes[0].metadata == {}
    assert dict(dataset.episodes.metadata) == {}


def test_values_that_are_lists_stay_lists(tmp_path):
    root = clean_dataset(tmp_path / "lists", "v3.0")
    path = root / Folder(root).episode_table
    table = pq.read_table(path)
    table = table.append_column("language", pa.array([["pick", "place"]] * table.num_rows))
    pq.write_table(table, path)
    episodes = reel.open_dataset(root).episodes
    assert episodes[0].metadata == {"language": ["pick", "place"]}
    assert episodes.metadata["language"].shape == (len(LENGTHS),)


def test_a_key_that_few_lines_have_is_none_elsewhere(tmp_path):
    root = clean_dataset(tmp_path / "few", "v2.1")
    Folder(root).edit_episode(3, success=True)
    dataset = reel.open_dataset(root)
    assert dataset.episodes.metadata["success"].tolist() == [None, None, None, True, None, None]
    assert dataset.episodes[0].metadata == {"success": None}


def test_of_an_episode_that_is_listed_twice_the_last_entry_counts(tmp_path):
    root = clean_dataset(tmp_path / "twice", "v2.1")
    path = root / "meta/episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [{**lines[1], "success": False}, *({**line, "success": True} for line in lines)]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert reel.open_dataset(root).episodes.metadata["success"].all()


def test_the_drop_in_has_every_stored_column(described):
    pytest.importorskip("torch")
    from roboreel.lerobot import LeRobotDatasetMetadata

    episodes = LeRobotDatasetMetadata("a/b", root=described, api="v3.0").episodes
    for name, value in expected(4).items():
        assert episodes[4][name] == value
        assert episodes[name][4] == value
        assert episodes[[4, 0]][name][0] == value
        assert name in episodes.column_names
    assert not any(name.startswith("stats/") for name in episodes.column_names)
    table = described / Folder(described).episode_table
    if table.suffix == ".parquet":
        stored = [n for n in pq.read_schema(table).names if not n.startswith("stats/")]
        assert set(episodes.column_names) == set(stored)


# --- statistics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_an_episode_has_its_own_statistics(version, tmp_path):
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", version))
    stored = dict(read_episode_stats(dataset.manifest))
    assert sorted(stored) == list(range(len(LENGTHS)))
    for number in (5, 0, 3):
        stats = dataset.select([number]).episodes[0].stats
        assert stats.keys() == stored[number].keys()
        for name, entry in stats.items():
            np.testing.assert_array_equal(entry.mean, stored[number][name].mean)
            np.testing.assert_array_equal(entry.count, stored[number][name].count)
        computed = dataset.select([number]).compute_stats(["action"])["action"]
        np.testing.assert_allclose(stats["action"].mean, computed.mean, rtol=1e-5)


def test_v2_0_has_no_statistics_of_episodes(tmp_path):
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", "v2.0"))
    assert dataset.episodes[0].stats == {}


# --- subtasks, robot and version ----------------------------------------------------------------


@pytest.fixture
def with_subtasks(tmp_path):
    wild_tables.subtasks.make(tmp_path / "subtasks", "v3.0")
    return tmp_path / "subtasks"


def test_subtasks_are_read_as_texts(with_subtasks):
    dataset = reel.open_dataset(with_subtasks)
    assert dataset.subtasks == {0: "reach", 1: "grasp"}
    assert dataset.read([3, 0], ["subtask"]) == {"subtask": ["grasp", "reach"]}
    assert dataset[0]["subtask"] == "reach"
    assert dataset.episodes[0]["subtask"][:2] == ["reach", "grasp"]
    assert dataset.select([1]).subtasks == dataset.subtasks


def test_a_subtask_whose_number_is_not_defined_is_an_empty_text(with_subtasks):
    wild_tables.write_subtasks(with_subtasks / "meta/subtasks.parquet", ["reach"])
    dataset = reel.open_dataset(with_subtasks)
    assert dataset.read([0, 1], ["subtask"]) == {"subtask": ["reach", ""]}


def test_without_subtasks_asking_for_them_is_an_error(tmp_path):
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", "v3.0"))
    assert dataset.subtasks == {}
    assert "subtask" not in dataset[0]
    with pytest.raises(FeatureNotFoundError, match="'subtask'"):
        dataset.read([0], ["subtask"])


def test_a_mixture_has_empty_subtasks_where_a_dataset_has_none(with_subtasks, tmp_path):
    plain = reel.open_dataset(clean_dataset(tmp_path / "clean", "v3.0"))
    first = reel.open_dataset(with_subtasks)
    mixture = reel.Mixture({first: 1, plain: 1})
    samples = [0, len(first), 1]
    assert mixture.read(samples, ["subtask"])["subtask"] == ["reach", "", "grasp"]
    assert mixture.read(samples)["subtask"] == ["reach", "", "grasp"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dataset_says_its_robot_and_its_version(version, tmp_path):
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", version))
    assert dataset.version == version
    assert dataset.robot_type == "test_arm"
