"""Ways out of a dataset: tables for other libraries, and video files."""

import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import EncodingError, FeatureNotFoundError
from roboreel.schema import Feature
from roboreel.video import encode
from tests.factory import NUMBERS, write_dataset
from tests.video_factory import HEIGHT, WIDTH, decode_all, number_of, write_video

CAMERA = "observation.images.top"
LENGTHS = [6, 4, 5]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("doors")
    features = {**NUMBERS, CAMERA: Feature("video", (HEIGHT, WIDTH, 3))}
    manifest = write_dataset(root, LENGTHS, features=features)
    # Two episodes share the first file. Its keyframes are at 0, 3, 6 and 9.
    for file, rows in enumerate([range(10), range(10, 15)]):
        path = root / manifest.video_files[CAMERA][file]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, rows, gop=3)
    return root


@pytest.fixture(scope="module")
def dataset(root):
    return reel.open_dataset(root)


class TestTables:
    def test_a_table_has_every_number_and_text_of_the_view(self, dataset):
        view = dataset.select([0, 2])
        table, values = view.to_arrow(), view.read(range(11))
        assert table.column_names == [n for n in values if n != CAMERA]
        for name in table.column_names:
            column = table[name].to_pylist()
            assert np.array_equal(np.asarray(column), np.asarray(values[name])), name

    def test_it_is_the_same_in_steps(self, dataset, monkeypatch):
        from roboreel.dataset import tables

        whole = dataset.to_arrow()
        monkeypatch.setattr(tables, "_BYTES_AT_ONCE", 100)
        assert len(list(tables.steps_of(dataset, ["action"]))) > 1
        assert dataset.to_arrow().equals(whole)

    def test_columns_can_be_chosen_in_any_order(self, dataset):
        table = dataset.to_arrow(["task", "action"])
        assert table.column_names == ["task", "action"]
        assert str(table.schema.field("action").type) == "fixed_size_list<item: float>[2]"
        assert dataset.to_arrow("index")["index"].to_pylist() == list(range(15))

    def test_a_view_of_nothing_has_the_columns(self, dataset):
        table = dataset.select([]).to_arrow()
        assert table.num_rows == 0
        assert table.schema.equals(dataset.to_arrow().schema)

    def test_cameras_and_unknown_names_are_refused(self, dataset):
        with pytest.raises(FeatureNotFoundError, match=r"top' is a camera, .* numbers and texts"):
            dataset.to_arrow([CAMERA])
        with pytest.raises(FeatureNotFoundError, match="'akshun' is no feature"):
            dataset.to_arrow(["akshun"])

    def test_pandas_and_polars_get_the_same(self, dataset):
        pytest.importorskip("pandas")
        frame = dataset.to_pandas(["index", "task", "action"])
        assert frame["index"].tolist() == list(range(15))
        assert np.array_equal(np.stack(frame["action"]), dataset[:]["action"])
        pytest.importorskip("polars")
        assert dataset.to_polars(["index"])["index"].to_list() == list(range(15))
        assert dataset.to_polars(["action"])["action"].dtype.shape == (2,)


def shown(path):
    return [number_of(image) for image in decode_all(path)]


class TestVideos:
    def test_a_clip_that_starts_at_a_keyframe_is_copied_to_the_pixel(self, dataset, tmp_path):
        path = dataset.episodes[0].to_video(tmp_path / "a.mp4")
        assert shown(path) == list(range(6))
        source = next((dataset.path / "videos").rglob("file-000.mp4"))
        assert np.array_equal(decode_all(path), decode_all(source)[:6])
        assert shown(dataset.episodes[2].to_video(tmp_path / "new" / "b.mp4", CAMERA)) == [
            *range(10, 15)
        ]

    def test_a_clip_that_does_not_is_encoded_unless_a_copy_is_asked_for(self, tmp_path):
        features = {**NUMBERS, CAMERA: Feature("video", (HEIGHT, WIDTH, 3))}
        manifest = write_dataset(tmp_path / "arm", [4, 5], features=features)
        path = tmp_path / "arm" / manifest.video_files[CAMERA][0]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, range(9), gop=3)
        episode = reel.open_dataset(tmp_path / "arm").episodes[1]
        with pytest.raises(EncodingError, match=r"does not start at a keyframe.*encoding="):
            episode.to_video(tmp_path / "b.mp4", encoding="copy")
        assert not (tmp_path / "b.mp4").exists()
        with pytest.raises(EncodingError, match=r"'h264': give a roboreel\.Encoding"):
            episode.to_video(tmp_path / "b.mp4", encoding="h264")  # type: ignore[arg-type]
        with pytest.raises(EncodingError, match="This is a folder"):
            episode.to_video(tmp_path)
        # Older encoders of AV1, the default, take no images that are so narrow.
        encodings = [None] if encode._NARROWEST_AV1 == 1 else []
        for encoding in (*encodings, reel.Encoding("h264")):
            episode.to_video(tmp_path / "b.mp4", encoding=encoding)
            assert shown(tmp_path / "b.mp4") == [4, 5, 6, 7, 8]

    def test_images_of_other_orders_are_copied_too(self, tmp_path):
        features = {**NUMBERS, CAMERA: Feature("video", (HEIGHT, WIDTH, 3))}
        manifest = write_dataset(tmp_path / "arm", [9], features=features)
        path = tmp_path / "arm" / manifest.video_files[CAMERA][0]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, range(9), gop=9, bframes=2)
        out = reel.open_dataset(tmp_path / "arm").episodes[0].to_video(tmp_path / "b.mp4")
        assert shown(out) == list(range(9))

    def test_pictures_are_encoded(self, tmp_path):
        pictures = {**NUMBERS, "cam": Feature("image", (HEIGHT, WIDTH, 3))}
        write_dataset(tmp_path / "arm", [3], features=pictures)
        episode = reel.open_dataset(tmp_path / "arm").episodes[0]
        with pytest.raises(EncodingError, match="stored as pictures"):
            episode.to_video(tmp_path / "a.mp4", encoding="copy")
        # Older encoders of AV1, the default, take no images that are so narrow.
        encodings = [None] if encode._NARROWEST_AV1 == 1 else []
        for encoding in (*encodings, reel.Encoding("h264")):
            episode.to_video(tmp_path / "a.mp4", encoding=encoding)
            assert len(decode_all(tmp_path / "a.mp4")) == 3

    def test_no_file_of_the_dataset_is_ever_written(self, dataset):
        with pytest.raises(EncodingError, match="not written into the folder of its dataset"):
            dataset.episodes[0].to_video(dataset.path / "videos" / "x.mp4")

    def test_the_camera_must_be_one_of_its_own(self, dataset, tmp_path):
        with pytest.raises(FeatureNotFoundError, match="no camera 'wrist': there are obs"):
            dataset.episodes[0].to_video(tmp_path / "x.mp4", "wrist")
