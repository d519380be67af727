"""Several oddities of other writers at once: never another row's value, and no needless refusal."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import roboreel as reel
from roboreel.errors import DatasetError
from tests.clean import CAMERAS, FPS, LENGTHS, NUM_ROWS, clean_dataset, rows_of, shown
from tests.project.test_wild import read_rows
from tests.surgery import Folder
from tests.video_factory import number_of

ENDS = {
    "right": lambda start, length: start + length / FPS,
    "last frame": lambda start, length: start + (length - 1) / FPS,
    "zero": lambda _start, _length: 0.0,
    "null": lambda _start, _length: None,
    "late": lambda start, length: start + (length + 3) / FPS,
}


def mix(folder, rng):
    """Change what other writers change; return the row that each row of the dataset now holds."""
    ends = {camera: [rng.choice(list(ENDS)) for _ in LENGTHS] for camera in CAMERAS}

    def change(row):
        row = dict(row)
        for camera in CAMERAS:
            start = row[f"videos/{camera}/from_timestamp"]
            end = ENDS[ends[camera][row["episode_index"]]]
            row[f"videos/{camera}/to_timestamp"] = end(start, row["length"])
        return row

    def edit(rows):
        rows = [change(row) for row in rows]
        if rng.random() < 0.5:
            rng.shuffle(rows)  # Episodes may be listed in any order.
        if rng.random() < 0.5:
            rows.insert(0, {**rows[-1], "length": 3})  # An older line: the last one counts.
        return rows

    held = list(range(NUM_ROWS))
    for episode in rng.sample(range(len(LENGTHS)), 2):
        order = rng.sample(range(LENGTHS[episode]), LENGTHS[episode])
        folder.edit_frames(episode, lambda table, order=order: table.take(order))
        first = rows_of(episode)[0]
        held[first : first + LENGTHS[episode]] = [first + place for place in order]
    if rng.random() < 0.5:
        folder.edit_all_frames(lambda table, _: table.drop_columns(["index"]))
    if folder.is_v3:
        folder.edit_table(folder.episode_table, edit)
    return held


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_any_mixture_reads_as_it_was_written(version, seed, tmp_path):
    rng = random.Random(f"{version} {seed}")
    per_file = rng.choice([1, 2, 3, 6])
    root = clean_dataset(tmp_path / "mixed", version, episodes_per_file=per_file)
    held = mix(Folder(root), rng)
    dataset = reel.open_dataset(root)
    assert [int(value[0]) for value in read_rows(dataset, "observation.state")] == held
    for camera in CAMERAS:
        images = read_rows(dataset, camera)
        assert [number_of(image) for image in images] == shown(camera, held)


def test_a_slow_video_of_several_episodes_is_counted(tmp_path):
    """info.json says twice the rate of the shared videos, and clips start by that rate."""
    folder = Folder(clean_dataset(tmp_path / "slow"))
    folder.edit_info(fps=2 * FPS)
    times = [f"videos/{camera}/{end}_timestamp" for camera in CAMERAS for end in ("from", "to")]

    def halve(rows):
        return [{**row, **{name: row[name] / 2 for name in times}} for row in rows]

    folder.edit_table(folder.episode_table, halve)
    for episode in range(len(LENGTHS)):
        folder.edit_column(episode, "timestamp", lambda values: [v / 2 for v in values])
    dataset = reel.open_dataset(folder.root)
    for camera in CAMERAS:
        images = read_rows(dataset, camera)
        assert [number_of(image) for image in images] == shown(camera, range(NUM_ROWS))


def test_clips_of_one_file_without_starts_are_refused(tmp_path):
    folder = Folder(clean_dataset(tmp_path / "unsaid"))
    nulls = {f"videos/{camera}/from_timestamp": None for camera in CAMERAS}
    folder.edit_table(folder.episode_table, lambda rows: [{**row, **nulls} for row in rows])
    dataset = reel.open_dataset(folder.root)
    assert any(found.code == "RR404" for found in dataset.problems)
    with pytest.raises(DatasetError, match="does not say where in the video the episode starts"):
        dataset.read([0], [CAMERAS[0]])


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_rows_whose_frame_index_and_timestamp_disagree_have_no_image(version, tmp_path):
    folder = Folder(clean_dataset(tmp_path / "torn", version))
    folder.edit_column(2, "frame_index", lambda values: values[::-1])
    dataset = reel.open_dataset(folder.root)
    with pytest.raises(DatasetError, match="episode 2 put its rows in different orders"):
        dataset.read([rows_of(2)[0]], [CAMERAS[0]])
    assert dataset.read([rows_of(3)[0]], [CAMERAS[0]])


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_camera_without_files_is_left_out_unless_asked_for(version, tmp_path):
    folder = Folder(clean_dataset(tmp_path / "absent", version))
    features = folder.info["features"]
    ego = "observation.images.ego"
    folder.edit_info(features={**features, ego: features[CAMERAS[0]]})
    dataset = reel.open_dataset(folder.root)
    assert [found.feature for found in dataset.problems if found.code == "RR109"] == [ego]
    assert set(CAMERAS) < set(dataset.read([0]))
    assert ego not in dataset.read([0])
    with pytest.raises(DatasetError, match=r"ego"):
        dataset.read([0], [ego])


@pytest.mark.parametrize("name", ["../../secret.png", "/etc/passwd"])
def test_a_picture_outside_of_the_dataset_is_refused(name, tmp_path):
    root = clean_dataset(tmp_path / "d", store="image")
    file = root / Folder(root).data(0)
    table = pq.read_table(file)
    camera = CAMERAS[0]
    values = pa.array([{"bytes": None, "path": name}] * len(table), table.schema.field(camera).type)
    place = table.column_names.index(camera)
    pq.write_table(table.set_column(place, table.schema.field(camera), values), file)
    with pytest.raises(DatasetError, match="outside of the dataset"):
        reel.open_dataset(root).read([0], [camera])
