"""Alpha channels, rotations and codecs of other writers, on every path that images take."""

import io

import av
import numpy as np
import pytest

import roboreel as reel
from roboreel.errors import CacheError, UnsupportedVideoError
from roboreel.image import decode_image, encode_jpeg, encode_png
from roboreel.io.budget import process_budget
from roboreel.report import write_report
from roboreel.video.clip_file import make_clip_file
from roboreel.video.reader import VideoReader
from tests import wild_tables, wild_videos
from tests.clean import FRONT, SIZES, VERSIONS, WRIST, clean_dataset, rows_of, shown
from tests.corrupt_videos import codec_that_rerun_cannot_show
from tests.rerun.rrd_rows import rows_of as rows_of_recording
from tests.surgery import Folder
from tests.video_factory import decode_all, number_of, write_video


def numbers(images):
    return [number_of(image[..., :3]) for image in images]


# --- alpha --------------------------------------------------------------------------------------


@pytest.fixture(params=["v2.1", "v3.0"])
def with_alpha(request, tmp_path):
    wild_tables.rgba_images.make(tmp_path / "alpha", request.param)
    return reel.open_dataset(tmp_path / "alpha")


def check_alpha(images, rows, camera=FRONT):
    assert images.shape == (len(rows), *SIZES[camera], 4)
    assert numbers(images) == shown(camera, rows)
    for image, row in zip(images, rows, strict=True):
        assert (image[..., 3] == 255 - row).all()


def test_alpha_is_kept_on_every_path(with_alpha, tmp_path):
    rows, episode = [7, 40, 7], with_alpha.episodes[1]
    check_alpha(with_alpha.read(rows, [FRONT], layout="hwc")[FRONT], rows)
    chw = with_alpha.read(rows, [FRONT])[FRONT]
    check_alpha(chw.transpose(0, 2, 3, 1), rows)
    streamed = np.stack(list(episode.stream(FRONT, layout="hwc")))
    check_alpha(streamed, list(rows_of(1)))
    cached = with_alpha.materialize(tmp_path / "cache", {"*": reel.Raw()})
    check_alpha(cached.read(rows, [WRIST], layout="hwc")[WRIST], rows, WRIST)
    torch = pytest.importorskip("torch")
    from roboreel.lerobot import LeRobotDataset

    item = LeRobotDataset("a/b", root=with_alpha.path)[7]
    assert item[FRONT].shape == (4, *SIZES[FRONT])
    assert torch.allclose(item[FRONT][3], torch.tensor((255 - 7) / 255))


def test_alpha_is_scaled_with_the_colour(with_alpha):
    (image,) = with_alpha.read([7], [FRONT], image_size=(24, 32), layout="hwc")[FRONT]
    assert image.shape == (24, 32, 4)
    assert (image[..., 3] == 255 - 7).all()
    (whole,) = with_alpha.read([7], [FRONT], layout="hwc")[FRONT]
    blocks = whole[..., :3].reshape(24, 2, 32, 2, 3).mean(axis=(1, 3))
    assert np.abs(image[..., :3] - blocks).mean() < 3


def test_a_cache_of_jpeg_would_drop_alpha_and_says_so(with_alpha, tmp_path):
    with pytest.raises(CacheError, match=f"drop the alpha of {FRONT!r}: store it as Raw"):
        with_alpha.materialize(tmp_path / "cache", {"*": reel.Jpeg()})


def test_a_report_shows_pictures_with_alpha(with_alpha, tmp_path):
    write_report(with_alpha, tmp_path / "report.html")
    assert "data:image/jpeg" in (tmp_path / "report.html").read_text()


def test_alpha_is_dropped_where_the_shape_has_three_channels(with_alpha):
    Folder(with_alpha.path).edit_feature(FRONT, shape=[*SIZES[FRONT], 3])
    images = reel.open_dataset(with_alpha.path).read([7], [FRONT], layout="hwc")[FRONT]
    assert images.shape == (1, *SIZES[FRONT], 3)
    assert numbers(images) == shown(FRONT, [7])


@pytest.mark.parametrize("encode", [encode_png, encode_jpeg])
def test_a_picture_without_alpha_is_opaque(encode):
    data = encode(np.full((4, 6, 3), 100, np.uint8))
    pixels = decode_image(data, alpha=True)
    assert pixels.shape == (4, 6, 4)
    assert (pixels[..., 3] == 255).all()
    assert np.array_equal(pixels[..., :3], decode_image(data))


def test_grey_has_no_alpha():
    assert decode_image(encode_png(np.zeros((4, 6), np.uint8)), alpha=True).shape == (4, 6, 1)


# --- rotation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rotation_is_not_applied_on_any_path(version, tmp_path):
    wild_videos.rotated_videos.make(tmp_path / "rotated", version)
    dataset = reel.open_dataset(tmp_path / "rotated")
    rows = list(rows_of(1))
    read = dataset.read(rows, [WRIST], layout="hwc")[WRIST]
    assert read.shape == (len(rows), *SIZES[WRIST], 3)
    assert numbers(read) == shown(WRIST, rows)
    streamed = np.stack(list(dataset.episodes[1].stream(WRIST, layout="hwc")))
    assert np.array_equal(streamed, read)
    cached = dataset.materialize(tmp_path / "cache", {WRIST: reel.Raw()})
    assert np.array_equal(cached.read(rows, [WRIST], layout="hwc")[WRIST], read)


def test_an_exported_file_has_no_rotation(tmp_path):
    path = tmp_path / "a.mp4"
    write_video(path, range(8), "libx264", gop=4, bframes=2)
    wild_videos.rotate(path)
    table = VideoReader(budget=process_budget(), threads=1).table(path)
    packets = table.shown[:8].astype(np.int64)
    file, _ = make_clip_file(path, table, packets, fps=30)
    with av.open(io.BytesIO(file)) as container:
        frames = list(container.decode(video=0))
    assert {frame.rotation for frame in frames} == {0}
    images = np.stack([frame.to_ndarray(format="rgb24") for frame in frames])
    assert np.array_equal(images, decode_all(path))


# --- codecs -------------------------------------------------------------------------------------


def test_a_codec_that_rerun_cannot_show_is_an_error_of_the_export(tmp_path):
    rerun = pytest.importorskip("roboreel.rerun")
    root = clean_dataset(tmp_path / "mpeg4", "v3.0")
    codec_that_rerun_cannot_show.apply(root)
    dataset = reel.open_dataset(root).select([0])
    assert dataset.read([0], [FRONT])[FRONT].shape == (1, 3, *SIZES[FRONT])
    with pytest.raises(UnsupportedVideoError, match=f"mpeg4 video.*{FRONT}.*ffmpeg") as raised:
        rerun.export_episodes(dataset, tmp_path / "out")
    assert str(root / Folder(root).video(FRONT, 0)) in str(raised.value)
    assert not list((tmp_path / "out").glob("*.rrd"))


def test_what_rerun_shows_is_exported(tmp_path):
    rerun = pytest.importorskip("roboreel.rerun")
    dataset = reel.open_dataset(clean_dataset(tmp_path / "clean", "v3.0")).select([0])
    (path,) = rerun.export_episodes(dataset, tmp_path / "out")
    assert rows_of_recording(path)
