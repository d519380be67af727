"""Only regular files of a reasonable size are read, and few of them stay open."""

import gc
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.commit import undo_change
from roboreel.errors import (
    CorruptFileError,
    DatasetError,
    JobError,
    MetadataError,
    TooManyFilesError,
)
from roboreel.files import copy_file, link_file, make_folder, remove_tree, sha256_of
from roboreel.importing import open_recording
from roboreel.io import kept_open
from roboreel.io.kept_open import KeptOpen
from roboreel.io.mapped import MappedFile
from roboreel.io.reading import open_to_read, read_file
from roboreel.jobs import InProcess, create_job, remove_job, run_job
from roboreel.record.compact import compact_dataset
from roboreel.record.recover import recover_dataset
from roboreel.repair import repair_dataset
from roboreel.replay.buffer import ReplayBuffer
from roboreel.report import write_report
from roboreel.video.demux import demux_packet_table
from roboreel.video.probe import probe_video
from tests.factory import TASKS, edit_info, write_dataset, write_dataset_v2
from tests.jobs.job_operations import squares
from tests.mutation import make
from tests.video_factory import write_video

resource = pytest.importorskip("resource")  # Windows has neither it nor FIFOs.

FILES = {
    "v3.0": [
        "meta/info.json",
        "meta/tasks.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "data/chunk-000/file-000.parquet",
    ],
    "v2.1": [
        "meta/info.json",
        "meta/tasks.jsonl",
        "meta/episodes.jsonl",
        "data/chunk-000/episode_000000.parquet",
    ],
}


def put_fifo(path: Path) -> None:
    os.mkfifo(path)


def put_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def put_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # The names of sockets are short.
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("put", [put_fifo, put_endless, put_socket])
@pytest.mark.parametrize(
    ("version", "name"), [(version, name) for version, names in FILES.items() for name in names]
)
def test_what_is_no_regular_file_is_refused_at_once(put, version, name, tmp_path):
    (write_dataset if version == "v3.0" else write_dataset_v2)(tmp_path / "d", [3, 4])
    path = tmp_path / "d" / name
    path.unlink()
    put(path)
    with pytest.raises(DatasetError):
        reel.open_dataset(tmp_path / "d").read([0])


def test_a_file_of_metadata_has_a_limit(tmp_path):
    write_dataset(tmp_path, [3])
    path = tmp_path / "meta/info.json"
    os.truncate(path, 300 * 1024**2)
    with pytest.raises(
        MetadataError, match=r"314,572,800 bytes: at most 268,435,456 are read.*info"
    ):
        reel.open_dataset(tmp_path)
    with pytest.raises(CorruptFileError, match="at most 10"):
        read_file(path, most_bytes=10)


_MANY = """
import resource, sys
from pathlib import Path
import roboreel as reel
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
opened = [reel.open_dataset(path) for path in sorted(Path(sys.argv[1]).iterdir())]
assert all(dataset.read([0])["index"].tolist() == [0] for dataset in opened)
assert all(dataset.read([1])["index"].tolist() == [1] for dataset in opened)
"""


def test_more_datasets_are_read_than_files_may_be_open(tmp_path):
    write_dataset(tmp_path / "0", [2], features={})
    for number in range(1, 120):
        (tmp_path / str(number)).symlink_to("0")
    subprocess.run([sys.executable, "-c", _MANY, str(tmp_path)], check=True, timeout=600)


def test_all_that_a_process_keeps_open_has_one_limit(monkeypatch):
    monkeypatch.setattr(kept_open, "_process_limit", lambda: 5)
    one, other = KeptOpen[int, object](limit=64), KeptOpen[int, object](limit=64)
    for number in range(4):
        one.get(number, object)
        other.get(number, object)
    one.get(0, object)
    assert len(one.items()) + len(other.items()) == 5
    del other
    gc.collect()
    for number in range(10, 13):
        one.get(number, object)
    assert len(one.items()) == 5


@pytest.mark.parametrize("left", [0, 1])
def test_too_many_open_files_are_named_where_a_file_is_mapped(tmp_path, left):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        # Above what earlier tests have left open.
        most = max(map(int, os.listdir("/dev/fd"))) + 20  # noqa: PTH208  # names alone
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        with pytest.raises(OSError, match="Too many open files"):
            taken.extend(os.open(path, os.O_RDONLY) for _ in range(most + 1))
        for _ in range(left):
            os.close(taken.pop())
        with pytest.raises(TooManyFilesError, match="ulimit -n"):
            MappedFile(path)
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_many_open_files_are_named(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        with pytest.raises(TooManyFilesError, match="ulimit -n"):
            taken.extend(open_to_read(path)[0] for _ in range(100))
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("name", ["header.bin", "episodes.bin", "replay.json"])
def test_a_fifo_in_place_of_a_file_of_a_replay_buffer_is_refused(name, tmp_path):
    make("replay", tmp_path / "buffer")
    (tmp_path / "buffer" / name).unlink()
    put_fifo(tmp_path / "buffer" / name)
    with pytest.raises(DatasetError, match="not a regular file"):
        ReplayBuffer(tmp_path / "buffer")


def test_a_fifo_in_place_of_a_video_is_refused(tmp_path):
    make("video-v2", tmp_path / "arm")
    (video, *_) = sorted(tmp_path.rglob("*episode_000000.mp4"))
    video.unlink()
    put_fifo(video)
    with pytest.raises(CorruptFileError, match="not a regular file"):
        reel.open_dataset(tmp_path / "arm").read([0], [video.parent.name])


def test_half_of_a_surrogate_pair_becomes_a_character_that_can_be_written(tmp_path):
    root = tmp_path / "arm"
    write_dataset_v2(root, [3])
    for path in (root / "meta/tasks.jsonl", root / "meta/episodes.jsonl"):
        path.write_text(path.read_text().replace(TASKS[0], "lift \\ud800"))
    dataset = reel.open_dataset(root)
    assert dataset.episodes[0].tasks == ("lift \ufffd",)
    write_report(dataset, tmp_path / "report.html")
    assert "lift \ufffd" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["hls.m3u8", "list.mp4"])
def test_a_list_of_other_files_is_no_video(tmp_path, name):
    other = tmp_path / "elsewhere" / "other.mp4"
    other.parent.mkdir()
    write_video(other, range(4))
    video = tmp_path / name
    lists = {
        "hls.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n{other}\n#EXT-X-ENDLIST\n",
        "list.mp4": f"ffconcat version 1.0\nfile {os.path.relpath(other, tmp_path)}\n",
    }
    video.write_text(lists[name])
    for read in (demux_packet_table, probe_video):
        with pytest.raises(CorruptFileError, match=f"cannot open.*{re.escape(name)}"):
            read(video)


def test_a_pipe_inside_a_recording_is_refused(tmp_path):
    for name in ("store.zarr/data/.zgroup", "media/table.csv"):
        pipe = tmp_path / name
        pipe.parent.mkdir(parents=True)
        put_fifo(pipe)
    (tmp_path / "store.zarr/.zgroup").write_text('{"zarr_format": 2}')
    with pytest.raises(CorruptFileError, match="not a regular file"):
        open_recording(tmp_path / "media")
    pytest.importorskip("zarr")
    with pytest.raises(CorruptFileError, match="not a regular file"):
        open_recording(tmp_path / "store.zarr")


@pytest.mark.parametrize("link", [False, True])
def test_no_copy_waits_for_a_pipe_in_place_of_a_video(link, tmp_path):
    make("video-v2", tmp_path / "arm")
    (video, *_) = sorted(tmp_path.rglob("*episode_000001.mp4"))
    video.unlink()
    put_fifo(video)
    with pytest.raises(CorruptFileError, match="not a regular file"):
        reel.edit_dataset(tmp_path / "arm").delete([0]).apply(out=tmp_path / "out", link=link)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("put", [put_fifo, put_endless, put_socket])
def test_what_is_no_regular_file_is_neither_copied_linked_nor_hashed(put, tmp_path):
    put(tmp_path / "odd")
    for use in (copy_file, link_file):
        with pytest.raises(CorruptFileError, match="not a regular file"):
            use(tmp_path / "odd", tmp_path / "new")
        assert not (tmp_path / "new").exists()
    with pytest.raises(CorruptFileError, match="not a regular file"):
        sha256_of(tmp_path / "odd")
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "odd")
    remove_tree(tmp_path / "odd", ignore_errors=True)
    assert os.path.lexists(tmp_path / "odd")


@pytest.mark.long
def test_folders_may_be_nested_deeper_than_calls_of_functions(tmp_path):
    root, deep = tmp_path / "d", Path("meta", *["a"] * 1200, "file.txt")
    write_dataset(root, [3, 4])
    make_folder((root / deep).parent, sync=False)
    (root / deep).write_text("x")
    try:
        check_dataset(root)
        reel.edit_dataset(root).delete([0]).apply(out=tmp_path / "edited")
        edit_info(root, total_frames=99)
        repair_dataset(root, out=tmp_path / "repaired")
        for out in ("edited", "repaired"):
            assert (tmp_path / out / deep).read_text() == "x"
        repair_dataset(root)
        reel.edit_dataset(root).set_task([0], "another").apply()
        undo_change(root)
        reel.resume_dataset(root).close()
        compact_dataset(root)
        recover_dataset(root)
        assert (root / deep).read_text() == "x"
    finally:
        for folder in list(tmp_path.iterdir()):
            remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("top", ["meta", "data", "videos"])
def test_folders_deeper_than_a_path_may_be_long_are_refused_in_a_sentence(
    top, tmp_path, monkeypatch
):
    root = tmp_path / "d"
    write_dataset(root, [3, 4])
    (root / top).mkdir(exist_ok=True)
    monkeypatch.chdir(root / top)
    for _ in range(30):
        os.mkdir("a" * 200)  # noqa: PTH102  # below the working directory
        os.chdir("a" * 200)
    monkeypatch.chdir(tmp_path)
    edit_info(root, total_frames=99)
    writers: list[Any] = [
        repair_dataset,
        recover_dataset,
        compact_dataset,
        reel.resume_dataset,
        check_dataset,
    ]
    for write in writers if top != "videos" else writers[:-1]:  # Without videos none are listed.
        with pytest.raises(DatasetError, match="nested deeper than a path may be long"):
            write(root)


@pytest.mark.parametrize("name", ["parts", "staging", "failed"])
def test_removing_a_job_does_not_wait_for_a_pipe(name, tmp_path):
    job = create_job(tmp_path / "job", squares(2))
    remove_tree(job.path / name, ignore_errors=True)
    put_fifo(job.path / name)
    remove_job(job.path)
    assert [path.name for path in job.path.iterdir()] == [name]


def test_a_commit_does_not_wait_for_a_pipe_in_place_of_a_part(tmp_path):
    job = create_job(tmp_path / "job", squares(2))
    run_job(job, InProcess())
    (part, *_) = tmp_path.rglob("square.txt")
    part.unlink()
    put_fifo(part)
    with pytest.raises(JobError, match="not a regular file"):
        job.commit()
