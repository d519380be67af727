import math
import multiprocessing
import struct
import sys
import threading
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    MissingFileError,
    MissingImageError,
)
from roboreel.image import Layout
from roboreel.io.budget import Budget
from roboreel.video import boxes
from roboreel.video.clip import Clip
from roboreel.video.reader import ClipRequest, VideoReader
from tests.video_factory import (
    HEIGHT,
    WIDTH,
    decode_all,
    join_videos,
    number_of,
    write_video,
)

FPS = 30.0


@pytest.fixture
def reader():
    reader = VideoReader(budget=Budget(), threads=2)
    yield reader
    reader.close()


def request(
    path: Path,
    frames: Any,
    *,
    start: float = 0.0,
    length: int,
    stop: float | None = None,
    slots: Any = None,
    episode: int = 0,
    camera: str = "front",
) -> ClipRequest:
    frames = np.asarray(frames, dtype=np.int64)
    return ClipRequest(
        path=path,
        clip=Clip(
            start,
            start + length / FPS if stop is None else stop,
            length,
            FPS,
            limit_s=math.inf if stop is None else stop,
        ),
        frames=frames,
        slots=np.arange(len(frames)) if slots is None else np.asarray(slots),
        episode=episode,
        camera=camera,
    )


def read(
    reader: VideoReader, path: Path, frames: Any, *, layout: Layout = "hwc", **clip: Any
) -> NDArray[np.uint8]:
    shape = (HEIGHT, WIDTH, 3) if layout == "hwc" else (3, HEIGHT, WIDTH)
    out = np.zeros((len(frames), *shape), np.uint8)
    reader.read(reader.plan([request(path, frames, **clip)]), out, layout=layout)
    return out


def numbers(images: Any) -> list[int]:
    return [number_of(image) for image in images]


# --- The right image.


@pytest.mark.parametrize("codec", ["libsvtav1", "libx264", "libx265", "libvpx-vp9"])
def test_every_frame_of_episodes_joined_in_one_file_is_its_own(codec, reader, tmp_path):
    lengths = [30, 1, 3, 45, 1]
    bframes = 3 if codec in ("libx264", "libx265") else 0
    parts, first = [], 0
    for episode, length in enumerate(lengths):
        part = tmp_path / f"{episode}.mp4"
        write_video(part, range(first, first + length), codec, gop=12, bframes=bframes)
        parts.append(part)
        first += length
    path = tmp_path / "joined.mp4"
    starts = join_videos(path, parts)
    assert reader.table(path).via == "mp4"
    first = 0
    for part, start, length in zip(parts, starts, lengths, strict=True):
        found = read(reader, path, range(length), start=start, length=length)
        assert numbers(found) == list(range(first, first + length))
        assert np.array_equal(found, decode_all(part))
        for frame in {0, length // 2, length - 1}:
            single = read(reader, path, [frame], start=start, length=length)
            assert np.array_equal(single[0], found[frame])
        first += length


def test_requests_of_one_batch_fill_their_slots(reader, tmp_path):
    paths = [
        write_video(tmp_path / f"{file}.mp4", range(file * 100, file * 100 + 40), gop=7)
        for file in range(3)
    ]
    out = np.zeros((9, HEIGHT, WIDTH, 3), np.uint8)
    wanted = [
        request(paths[2], [39, 0, 39], length=40, slots=[0, 4, 8]),
        request(paths[0], [5, 6], length=40, slots=[1, 2]),
        request(paths[1], [20, 3], length=40, slots=[3, 5]),
        request(paths[0], [6, 38], length=40, slots=[6, 7]),
    ]
    reader.read(reader.plan(wanted), out, layout="hwc")
    assert numbers(out) == [239, 5, 6, 120, 200, 103, 6, 38, 239]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_images(threads, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(100), "libx265", gop=10, bframes=3)
    reader = VideoReader(budget=Budget(), threads=threads)
    frames = np.random.default_rng(0).permutation(100)
    assert np.array_equal(read(reader, path, frames, length=100), decode_all(path)[frames])
    reader.close()


def test_both_layouts_hold_the_same_image(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(5))
    rows = read(reader, path, [3], length=5)
    planes = read(reader, path, [3], length=5, layout="chw")
    assert np.array_equal(planes[0], rows[0].transpose(2, 0, 1))


def test_images_are_resized_to_the_array(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(5), size=(96, 128))
    assert reader.plan([request(path, [4], length=5)]).image_sizes == {path: (96, 128)}
    assert numbers(read(reader, path, [4, 2], length=5)) == [4, 2]


def test_an_episode_streams_from_first_to_last_with_the_images_of_a_read(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(60), "libx265", gop=10, bframes=3)
    clip: dict[str, Any] = {"start": 10 / FPS, "length": 40}
    streamed = list(reader.stream(request(path, range(40), **clip), layout="hwc"))
    assert numbers(streamed) == list(range(10, 50))
    assert np.array_equal(streamed, read(reader, path, range(40), **clip))


def test_a_stream_is_in_order_also_where_images_are_decoded_late(reader, tmp_path):
    options = {"x264-params": "intra-refresh=1:keyint=10"}
    path = write_video(tmp_path / "v.mp4", range(60), gop=10, options=options)
    clip: dict[str, Any] = {"start": 21 / FPS, "length": 30}
    streamed = reader.stream(request(path, range(30), **clip), layout="hwc")
    assert numbers(streamed) == list(range(21, 51))


def test_a_frame_that_is_wanted_twice_streams_twice(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(10))
    streamed = reader.stream(request(path, [3, 3, 4], length=10), layout="hwc")
    assert numbers(streamed) == [3, 3, 4]


def test_a_stream_may_be_left_early_and_started_again(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(60), gop=10)
    for _ in range(3):
        stream = reader.stream(request(path, range(60), length=60), layout="hwc")
        assert numbers([next(stream), next(stream)]) == [0, 1]
        stream.close()
    assert numbers(read(reader, path, [33], length=60)) == [33]


def test_nothing_wanted_reads_nothing(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(3))
    assert read(reader, path, [], length=3).shape == (0, HEIGHT, WIDTH, 3)
    assert list(reader.stream(request(path, [], length=3), layout="chw")) == []


@pytest.mark.parametrize(
    "name",
    [
        "h264.mkv",
        "vp9.webm",
        "mpeg4.avi",
        "mpeg4.mp4",
        "h264.ts",
        "ffv1.mkv",
        "ffv1.mp4",
        "png.mp4",
    ],
)
def test_files_that_our_parser_refuses_are_read_through_ffmpeg(name, reader, tmp_path):
    stem = name.split(".")[0]
    codec = {"h264": "libx264", "vp9": "libvpx-vp9"}.get(stem, stem)
    form = {"png": "rgb24", "ffv1": "bgr0"}.get(stem, "yuv420p")
    path = write_video(tmp_path / name, range(50), codec, gop=10, pix_fmt=form)
    assert reader.table(path).via == "ffmpeg"
    expected = decode_all(path)
    assert numbers(expected) == list(range(50))
    for frames in ([0], [49], [25, 3, 25], range(50)):
        found = read(reader, path, frames, length=50, stop=math.inf)
        assert np.array_equal(found, expected[list(frames)])


def replace_boxes(index: bytes, new: dict[bytes, bytes]) -> bytes:
    """Return boxes with other content for some of those inside."""
    parts = []
    for kind, data in boxes.children(memoryview(index)):
        is_outer = kind in (b"moov", b"trak", b"mdia", b"minf", b"stbl")
        content = replace_boxes(bytes(data), new) if is_outer else new.get(kind, bytes(data))
        parts.append(struct.pack(">I4s", 8 + len(content), kind) + content)
    return b"".join(parts)


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_images_behind_a_change_of_codec_settings_are_decoded_by_the_new_ones(
    codec, reader, tmp_path
):
    parts, entries = [], []
    for offset in ("0", "8"):  # Part of the settings alone: packets can be parsed by the others.
        params = {"libx264": f"chroma-qp-offset={offset}", "libx265": f"cbqpoffs={offset}"}[codec]
        options = {f"{codec[3:]}-params": params}
        path = write_video(tmp_path / f"{offset}.mp4", range(20), codec, options=options)
        content = path.read_bytes()
        at = content.index(b"stsd")
        entries.append(content[at + 12 : at - 4 + int.from_bytes(content[at - 4 : at], "big")])
        parts.append(path)
    path = tmp_path / "joined.mp4"
    join_videos(path, parts)
    offsets = reader.table(path).offset
    content = path.read_bytes()
    index = content.rindex(b"moov") - 4
    new = {
        b"stsd": struct.pack(">II", 0, 2) + b"".join(entries),
        b"stsc": struct.pack(">8I", 0, 2, 1, 1, 1, 21, 1, 2),
        b"stco": struct.pack(">42I", 0, 40, *offsets.tolist()),
    }
    path.write_bytes(content[:index] + replace_boxes(content[index:], new))
    expected = np.concatenate([decode_all(part) for part in parts])
    for frames in (range(40), [39], [3, 25], [1], [22]):
        found = read(reader, path, frames, length=40, stop=math.inf)
        assert np.array_equal(found, expected[list(frames)]), frames


def test_a_file_is_asked_for_its_table_once_a_batch(reader, tmp_path, monkeypatch):
    paths = [write_video(tmp_path / f"{file}.mp4", range(6)) for file in range(2)]
    wanted = [request(path, [1, 4], length=6) for path in paths * 3]
    asked: list[Path] = []
    stat = Path.stat

    def counted(path: Path) -> Any:
        asked.append(path)
        return stat(path)

    monkeypatch.setattr(Path, "stat", counted)
    reader.read(reader.plan(wanted), np.zeros((2, HEIGHT, WIDTH, 3), np.uint8), layout="hwc")
    assert asked == paths


# --- What is not there.


def test_a_camera_one_image_short_is_an_error_that_names_episode_frame_and_file(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(60))
    short: dict[str, Any] = {
        "start": 0.0,
        "length": 30,
        "stop": 29 / FPS,
        "episode": 7,
        "camera": "wrist",
    }
    assert numbers(read(reader, path, [28], **short)) == [28]
    with pytest.raises(
        MissingImageError, match=r"No image for frame 29.*Episode 7, camera 'wrist'.*v\.mp4"
    ):
        read(reader, path, [28, 29], **short)


def test_a_missing_file_is_named(reader, tmp_path):
    with pytest.raises(MissingFileError, match=r"no video file.*gone\.mp4"):
        read(reader, tmp_path / "gone.mp4", [0], length=1)


def test_a_file_that_is_no_video_is_named(reader, tmp_path):
    path = tmp_path / "v.mp4"
    path.write_bytes(b"not a video" * 1000)
    with pytest.raises(CorruptFileError, match=r"no 'moov' box.*v\.mp4"):
        read(reader, path, [0], length=1)


def test_a_damaged_image_is_an_error_that_names_the_file_and_the_others_stay_readable(
    reader, tmp_path
):
    path = write_video(tmp_path / "v.mp4", range(60), gop=2)
    table = reader.table(path)
    content = bytearray(path.read_bytes())
    start, size = int(table.offset[30]), int(table.size[30])
    content[start : start + size] = b"\xff" * size
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"v\.mp4"):
        read(reader, path, range(60), length=60)
    frames = [*range(30), *range(32, 60)]
    assert numbers(read(reader, path, frames, length=60)) == frames


def test_a_file_that_was_written_again_is_read_again(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(20))
    assert numbers(read(reader, path, [3], length=20)) == [3]
    write_video(path, range(100, 130))
    assert numbers(read(reader, path, [3], length=30)) == [103]


# --- Memory, handles, processes.


def test_tables_and_decoders_are_held_in_the_budget_and_leave_it(tmp_path):
    budget = Budget()
    reader = VideoReader(budget=budget, threads=1)
    path = write_video(tmp_path / "v.mp4", range(20))
    read(reader, path, [3], length=20)
    assert budget.held_by_owner().keys() == {"video tables", "decoders"}
    budget.limit_bytes = 0
    assert budget.held_bytes == 0
    assert numbers(read(reader, path, [3], length=20)) == [3]


def test_files_of_equal_coding_share_a_decoder(tmp_path):
    budget = Budget()
    reader = VideoReader(budget=budget, threads=1)
    held = []
    for file in range(4):
        path = write_video(tmp_path / f"{file}.mp4", range(5))
        read(reader, path, [3], length=5)
        held.append(budget.held_by_owner()["decoders"])
    assert len(set(held)) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts handles by /proc")
def test_two_thousand_reads_over_two_hundred_files_keep_handles_and_memory_flat(reader, tmp_path):
    original = write_video(tmp_path / "v.mp4", range(12), gop=4)
    paths = [tmp_path / f"{file}.mp4" for file in range(200)]
    for path in paths:
        path.hardlink_to(original)
    rng = np.random.default_rng(0)

    def read_some(count: int) -> tuple[int, int, int]:
        for path in rng.choice(paths, count):
            frames = rng.integers(0, 12, 2)
            assert numbers(read(reader, path, frames, length=12)) == frames.tolist()
        return len([*Path("/proc/self/fd").iterdir()]), _anonymous_bytes(), threading.active_count()

    handles, memory, threads = read_some(400)
    after = [read_some(400) for _ in range(4)]
    assert max(counted for counted, _, _ in after) <= handles
    assert max(counted for _, _, counted in after) <= threads
    # A leak grows with every 400 reads, while heaps of threads grow now and then.
    held = [memory, *(counted for _, counted, _ in after)]
    assert min(later - earlier for earlier, later in pairwise(held)) < 2e6


def _anonymous_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def _read_in_child(path: Path, queue: Any, reader: VideoReader | None = None) -> None:
    reader = reader or VideoReader(budget=Budget(), threads=2)
    queue.put(numbers(read(reader, path, [7, 3, 39, 20], length=40)))


@pytest.mark.skipif(sys.platform != "linux", reason="fork is the default on Linux only")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_reads_after_its_parent_has_read(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(40), "libsvtav1", gop=2)
    assert numbers(read(reader, path, range(40), length=40)) == list(range(40))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [
        context.Process(target=_read_in_child, args=(path, queue, reader)) for _ in range(2)
    ]
    for child in children:
        child.start()
    assert [queue.get(timeout=120) for _ in children] == [[7, 3, 39, 20]] * 2
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    assert numbers(read(reader, path, [5], length=40)) == [5]


def test_a_spawned_process_reads(tmp_path):
    path = write_video(tmp_path / "v.mp4", range(40), gop=2)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_read_in_child, args=(path, queue))
    child.start()
    assert queue.get(timeout=120) == [7, 3, 39, 20]
    child.join(120)
    assert child.exitcode == 0


def test_several_threads_of_the_user_may_read_at_once(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(60), gop=6)
    found = {}

    def work(start: int) -> None:
        frames = list(range(start, 60, 4))
        found[start] = numbers(read(reader, path, frames, length=60)) == frames

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), True)


def test_every_error_of_a_batch_is_ours(reader, tmp_path):
    path = write_video(tmp_path / "v.mp4", range(20), gop=2)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = content.copy()
        for at in rng.integers(0, len(content), 5):
            damaged[at] = rng.integers(0, 256)
        path.write_bytes(damaged)
        with suppress(DatasetError):
            read(reader, path, range(20), length=20)
