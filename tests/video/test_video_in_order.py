"""Images read in order, one by one or window by window: decoders go on where they stand."""

import multiprocessing
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roboreel.errors import CorruptFileError, RemoteError
from roboreel.io.budget import Budget
from roboreel.video import decode
from roboreel.video.mp4 import read_packet_table
from roboreel.video.packets import FilePackets
from roboreel.video.reader import VideoReader
from roboreel.video.standing import Decoders
from tests.video.test_decode import CODINGS
from tests.video.test_video_reader import read, request
from tests.video_factory import decode_all, number_of, write_video

COUNT = 40


@pytest.fixture
def reader():
    reader = VideoReader(budget=Budget(), threads=1)
    yield reader
    reader.close()


@pytest.fixture
def fed(monkeypatch):
    """The packets that decoders were fed, in order."""
    packets: list[int] = []
    feed = decode._feed

    def noting(context: Any, packet: Any, number: int, *others: Any) -> Any:
        if packet is not None:
            packets.append(number)
        return feed(context, packet, number, *others)

    monkeypatch.setattr(decode, "_feed", noting)
    return packets


@pytest.mark.parametrize("gop", [10, 250])
@pytest.mark.parametrize("name", CODINGS)
def test_images_one_by_one_are_those_of_a_plain_decode_and_decoded_once(
    name, gop, reader, fed, tmp_path
):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=gop, **CODINGS[name])
    expected = decode_all(path)
    for image in range(COUNT):
        assert np.array_equal(read(reader, path, [image], length=COUNT)[0], expected[image]), image
    gops = read_packet_table(path).keyframe.sum()
    # Each once; at the start again until the order is known; leading images with their GOP.
    assert len(fed) < 1.5 * COUNT + 6 * gops


@pytest.mark.parametrize("name", CODINGS)
def test_windows_that_move_on_share_their_images(name, reader, fed, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250, **CODINGS[name])
    expected = decode_all(path)
    for image in range(6, COUNT):
        wanted = [image - 6, image - 1, image]
        assert np.array_equal(read(reader, path, wanted, length=COUNT), expected[wanted]), image
    assert len(fed) < 2 * COUNT


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("limit", [2**29, 2**18])
def test_reads_that_jump_ahead_and_back_are_those_of_a_plain_decode(name, limit, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=16, **CODINGS[name])
    expected = decode_all(path)
    reader = VideoReader(budget=Budget(limit), threads=1)
    rng = np.random.default_rng(0)
    at = 0
    for _ in range(120):
        at = int(np.clip(at + rng.choice([-9, -1, 0, 1, 1, 1, 2, 5]), 0, COUNT - 1))
        wanted = sorted({at, max(0, at - int(rng.integers(0, 4)))})
        assert np.array_equal(read(reader, path, wanted, length=COUNT), expected[wanted]), wanted


@pytest.fixture
def opened(monkeypatch):
    """The codings that decoders were opened for."""
    codings: list[Any] = []
    open_context = decode._open_context

    def noting(coding: Any, **options: Any) -> Any:
        codings.append(coding)
        return open_context(coding, **options)

    monkeypatch.setattr(decode, "_open_context", noting)
    return codings


def test_a_pass_over_many_gops_takes_two_decoders_in_turns(reader, opened, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=2)
    expected = decode_all(path)
    for image in range(COUNT):
        assert np.array_equal(read(reader, path, [image], length=COUNT)[0], expected[image]), image
    assert len(opened) <= 3  # One more before the order is known.


def test_gops_of_one_read_in_order_are_decoded_side_by_side(monkeypatch, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=2)
    expected, feed = decode_all(path), decode._feed
    meeting, met = threading.Barrier(2), threading.local()

    def waiting(*arguments: Any) -> Any:
        if not hasattr(met, "once"):  # The first packet of each thread.
            met.once = meeting.wait(timeout=30)
        return feed(*arguments)

    with closing(VideoReader(budget=Budget(), threads=2)) as reader:
        for image in range(8):
            read(reader, path, [image], length=COUNT)
        monkeypatch.setattr(decode, "_feed", waiting)
        images = read(reader, path, range(8, 24), length=COUNT)
    assert np.array_equal(images, expected[8:24])


def test_two_files_and_two_passes_in_turns_are_each_decoded_once(reader, fed, tmp_path):
    paths = [write_video(tmp_path / f"{i}.mp4", range(i, i + COUNT), gop=250) for i in range(3)]
    for image in range(COUNT):
        for number, path in enumerate(paths):
            assert number_of(read(reader, path, [image], length=COUNT)[0]) == number + image
    assert len(fed) < 1.2 * len(paths) * COUNT


def test_threads_that_read_in_order_together_get_their_own_images(tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250, bframes=3)
    expected = decode_all(path)
    reader = VideoReader(budget=Budget(), threads=2)
    turns, wrong = iter(range(2 * COUNT)), []

    def take_turns() -> None:
        for turn in turns:
            wanted = [max(0, turn % COUNT - 2), turn % COUNT]
            if not np.array_equal(read(reader, path, wanted, length=COUNT), expected[wanted]):
                wrong.append(wanted)

    threads = [threading.Thread(target=take_turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    reader.close()


@pytest.mark.parametrize("name", ["H.264", "H.264 with B"])
def test_damage_ahead_is_no_error_before_it_is_reached(name, reader, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=20, **CODINGS[name])
    table = read_packet_table(path)
    content = bytearray(path.read_bytes())
    start, size = int(table.offset[25]), int(table.size[25])
    content[start : start + size] = b"\xff" * size
    path.write_bytes(content)
    assert _outcomes(reader, path) == [
        outcome
        for image in range(COUNT)
        for outcome in _outcomes(VideoReader(budget=Budget(), threads=1), path, [image])
    ]


def _outcomes(reader: VideoReader, path: Path, images: Any = range(COUNT)) -> list[Any]:
    """Return the bytes of each image, or its error."""
    return [_outcome(reader, path, image) for image in images]


def _outcome(reader: VideoReader, path: Path, image: int) -> bytes | str:
    try:
        return read(reader, path, [image], length=COUNT).tobytes()
    except CorruptFileError as error:
        return str(error)


def test_a_file_that_is_replaced_between_two_images_is_read_anew(reader, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250)
    for image in range(5):
        read(reader, path, [image], length=COUNT)
    path.unlink()
    write_video(path, range(100, 100 + COUNT), gop=250)
    assert number_of(read(reader, path, [5], length=COUNT)[0]) == 105


def test_a_stream_may_be_open_while_its_next_image_is_read(reader, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250)
    for image in range(4):
        read(reader, path, [image], length=COUNT)
    stream = reader.stream(request(path, range(COUNT), length=COUNT), layout="hwc")
    for image in range(6):
        assert number_of(next(stream)) == image
        assert number_of(read(reader, path, [image + 1], length=COUNT)[0]) == image + 1


def test_images_that_are_kept_count_in_the_budget_and_stay_within_it(tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250, size=(480, 640))
    budget = Budget(40 * 2**20)
    reader = VideoReader(budget=budget, threads=1)
    out = np.empty((2, 3, 480, 640), np.uint8)
    held = []
    for image in range(30, COUNT):
        plan = reader.plan([request(path, [image - 30, image], length=COUNT)])
        reader.read(plan, out, layout="chw")
        held.append(budget.held_by("decoders"))
    image_bytes = 480 * 640 * 3 // 2
    assert held[-1] > held[0] + image_bytes
    assert held[-1] < held[0] + budget.limit_bytes // 16 + image_bytes


def test_images_that_are_kept_count_while_decoders_are_lent(monkeypatch, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(200), gop=20, size=(120, 160))
    budget, lent, uncounted = Budget(20 * 2**20), [], []
    lend, found, guard = Decoders.lend, decode.Decoder._found, threading.Lock()

    @contextmanager
    def noting(self: Decoders, *arguments: Any) -> Any:
        with lend(self, *arguments) as lease:
            with guard:
                lent.append(lease.decoder)
            yield lease
            with guard:
                lent.remove(lease.decoder)

    def counting(*arguments: Any) -> Any:
        images = found(*arguments)
        with guard:
            missing = sum(decoder.nbytes for decoder in lent) - budget.held_by("decoders")
            uncounted.append(missing)
        return images

    monkeypatch.setattr(Decoders, "lend", noting)
    monkeypatch.setattr(decode.Decoder, "_found", counting)
    with closing(VideoReader(budget=budget, threads=8)) as reader:
        for image in range(4):
            read(reader, path, [image], length=200)
        read(reader, path, range(4, 200), length=200)
    assert max(uncounted) < 120 * 160 * 3 // 2  # Less than an image: planes are padded.


def _read_on(reader: VideoReader, path: Path, queue: Any) -> None:
    queue.put([number_of(read(reader, path, [image], length=COUNT)[0]) for image in range(5, 9)])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_reads_on_with_decoders_of_its_own(reader, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250, bframes=3)
    for image in range(5):
        read(reader, path, [image], length=COUNT)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_read_on, args=(reader, path, queue))
    child.start()
    assert queue.get(timeout=60) == [5, 6, 7, 8]
    child.join(60)
    assert [number_of(read(reader, path, [i], length=COUNT)[0]) for i in (5, 6)] == [5, 6]


@pytest.mark.parametrize("name", CODINGS)
def test_a_read_that_the_next_one_has_overtaken_is_not_decoded_from_its_keyframe(
    name, reader, fed, tmp_path
):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250, **CODINGS[name])
    expected = decode_all(path)
    for image in [*range(20), 21, 20, 23, 22, 24, 26, 25, 28, 27]:
        assert np.array_equal(read(reader, path, [image], length=COUNT)[0], expected[image]), image
    assert len(fed) < 1.5 * COUNT


@pytest.mark.parametrize("name", CODINGS)
def test_the_plan_for_one_image_is_that_for_a_batch_of_one(name, reader, tmp_path):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=10, **CODINGS[name])
    for image in range(COUNT):
        (short,) = reader.plan([request(path, [image], length=COUNT)]).jobs
        (long,) = reader.plan([request(path, [image, image], length=COUNT)]).jobs
        assert short.runs == long.runs
        assert list(short.slots) == list(long.slots)
        assert list(short.slots.values()) == [[0]]


def test_packets_that_nobody_asked_for_need_not_be_readable(reader, tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250, bframes=3)
    expected = decode_all(path)
    at_hand = int(reader.table(path).shown[: COUNT // 2].max()) + 1
    whole = FilePackets.read

    def limited(self, start, stop):
        if stop > at_hand:
            raise RemoteError("The network is gone.")
        return whole(self, start, stop)

    monkeypatch.setattr(FilePackets, "read", limited)
    for image in range(COUNT // 2):
        assert np.array_equal(read(reader, path, [image], length=COUNT)[0], expected[image]), image


def test_a_read_that_is_interrupted_as_it_begins_is_waited_for_by_nobody(
    reader, tmp_path, monkeypatch
):
    path = write_video(tmp_path / "a.mp4", range(COUNT), gop=250)
    expected = decode_all(path)
    for image in range(3):
        read(reader, path, [image], length=COUNT)
    note = Decoders._note

    def interrupted(self, current):
        note(self, current)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Decoders, "_note", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read(reader, path, [3], length=COUNT)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(read(reader, path, [4], length=COUNT)[0]), daemon=True
    )
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert np.array_equal(found[0], expected[4])
