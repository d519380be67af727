"""Recordings in Rerun's format: those that we write are those that Rerun would have written."""

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

rerun_chunk = pytest.importorskip("rerun.chunk")

import roboreel as reel
from roboreel.demo_arm import Sample, make_sample
from roboreel.rerun import columns as rows
from roboreel.rerun import example as example_module
from roboreel.rerun import export_episodes, recording
from roboreel.rerun.blocks import Kind, Timeline, Times, make_blocks
from roboreel.rerun.chunk_table import ChunkTable
from roboreel.rerun.columns import Column
from roboreel.rerun.example import chunk_form, write_example
from roboreel.rerun.identity import Identities
from roboreel.rerun.protobuf import nested, number, read_fields
from roboreel.rerun.recording import RecordingWriter
from roboreel.rerun.rrd import CHUNK, END, HEADER_BYTES, STORE, UnknownFormError, ending, frames
from tests import factory
from tests.rrd_rows import rows_of

LINES = (Timeline("frame_index", is_sorted=True), Timeline("timestamp", is_sorted=True))
KINDS = (Kind("/state", LINES, (rows.SCALARS,)), Kind("/state", (), (rows.SERIES_NAMES,)))
LZ4 = 2
ENCODED = {"EncodedImage:blob", "VideoStream:sample"}
SAMPLES = {
    "pictures": Sample(episodes=2, frames=12, size=(32, 48), store="image"),
    "AV1": Sample(episodes=2, frames=12, size=(64, 96)),
    "H.264": Sample(episodes=2, frames=12, size=(64, 96), codec="h264"),
}


@pytest.fixture(scope="module", params=[*SAMPLES, "every kind of value"])
def root(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "data"
    if request.param in SAMPLES:
        return make_sample(folder, SAMPLES[request.param])
    factory.write_dataset(folder, [3, 5])
    return folder


def last_message(path):
    """Return the table of chunks of a recording, and what else is in its last message."""
    *_, (kind, message) = frames(path.read_bytes())
    assert kind == END
    manifest: dict[int, Any] = dict(read_fields(cast("bytes", read_fields(message)[1])))
    part: dict[int, Any] = dict(read_fields(manifest.pop(4)))
    unpacked = pa.decompress(part[2], part[4], codec="lz4_raw")
    return pa.ipc.open_stream(unpacked).read_all(), manifest


def test_rerun_finds_nothing_wrong_with_our_files(root, tmp_path):
    paths = export_episodes(reel.open_dataset(root), tmp_path)
    command = [sys.executable, "-m", "rerun_cli", "rrd", "verify", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "verified without error" in done.stderr) == (0, True), done.stderr


def test_the_last_message_is_the_one_that_rerun_writes_of_the_same_chunks(root, tmp_path):
    path = export_episodes(reel.open_dataset(root), tmp_path)[1]
    (store,) = rerun_chunk.RrdReader(path).recordings()
    chunks = rerun_chunk.RrdReader(path).stream(store=store)
    chunks.write_rrd(tmp_path / "again.rrd", application_id="data", recording_id="episode_000001")
    ours, our_manifest = last_message(path)
    theirs, their_manifest = last_message(tmp_path / "again.rrd")
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert our_manifest[3] == their_manifest[3]
    for name in ours.column_names:
        if not name.startswith("chunk_byte"):
            assert ours[name].equals(theirs[name]), name


def test_the_table_says_where_chunks_lie(root, tmp_path):
    path = export_episodes(reel.open_dataset(root), tmp_path)[0]
    data, (table, _) = path.read_bytes(), last_message(path)
    found = [message for kind, message in frames(data) if kind == CHUNK]
    places = zip(
        table["chunk_byte_offset"].to_pylist(), table["chunk_byte_size"].to_pylist(), strict=True
    )
    assert [data[offset : offset + size] for offset, size in places] == found
    unpacked = table["chunk_byte_size_uncompressed"].to_pylist()
    assert unpacked == [read_fields(message)[3] for message in found]


def test_encoded_images_are_not_compressed_again_and_all_else_is(root, tmp_path):
    path = export_episodes(reel.open_dataset(root), tmp_path)[0]
    for kind, message in frames(path.read_bytes()):
        if kind == CHUNK:
            fields = read_fields(message)
            is_image = any(
                name in message for name in (b"EncodedImage:blob", b"VideoStream:sample")
            )
            assert fields[2] == (1 if is_image else 2)


def test_rows_and_chunks_have_identities_of_their_own(root, tmp_path):
    paths = export_episodes(reel.open_dataset(root), tmp_path)
    chunks, row_ids = [], []
    for path in paths:
        reader = rerun_chunk.RrdReader(path)
        (store,) = reader.recordings()
        for chunk in reader.stream(store=store):
            chunks.append(chunk.id)
            ids = chunk.to_record_batch().column(0).to_pylist()
            assert ids == sorted(ids)
            row_ids += ids
    assert len(set(chunks)) == len(chunks) > 4
    assert len(set(row_ids)) == len(row_ids) > 20


def test_identities_go_on_where_many_are_taken():
    identities = Identities()
    taken = []
    for count in (1, 4095, 3, 9000, 0, 1):
        taken += identities.take_column(count).to_pylist()
        taken.append(identities.take().as_bytes())
    assert len(set(taken)) == len(taken) == 13_106


@pytest.mark.parametrize("episode", [0, 1])
def test_what_we_do_not_know_rerun_writes(root, episode, tmp_path, monkeypatch):
    dataset = reel.open_dataset(root).select([episode])
    (ours,) = export_episodes(dataset, tmp_path / "ours")
    monkeypatch.setattr(recording, "_usual_example", lambda _: None)
    (theirs,) = export_episodes(dataset, tmp_path / "theirs")
    assert rows_of(ours) == rows_of(theirs)
    assert b"rerun-sdk" in theirs.read_bytes()[:400]
    assert b"rerun-sdk" not in ours.read_bytes()[:400]


@pytest.mark.parametrize("order", [[2, 0, 1], [0, 1, 2], [1, 1, 1]], ids=str)
def test_frames_in_any_order_are_told_as_such(order, tmp_path):
    times = Times(np.array(order), np.array([0.1, 0.2, 0.3]))
    column = Column("/state", rows.SCALARS, rows.numbers(rows.SCALARS, np.arange(3.0)))
    RecordingWriter(tmp_path, "test").write(lambda: make_blocks([column], times.at()), "one")
    path = tmp_path / "one.rrd"
    assert rows_of(path, "timestamp") == {
        ("/state", "Scalars:scalars", tick): [value]
        for tick, value in zip([100_000_000, 200_000_000, 300_000_000], [0.0, 1, 2], strict=True)
    }
    table, _ = last_message(path)
    assert table["frame_index:start"].to_pylist() == [min(order)]
    assert table["frame_index:end"].to_pylist() == [max(order)]
    (chunk,) = rerun_chunk.RrdReader(path).stream(store=None)
    field = chunk.to_record_batch().schema.field("frame_index")
    assert (b"rerun:is_sorted" in field.metadata) == (order == sorted(order))


@pytest.fixture(scope="module")
def written():
    """Return what Rerun writes of two kinds of chunks."""
    seen: list[bytes] = []
    read = example_module._read_example

    def note(data):
        seen.append(data)
        return read(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example_module, "_read_example", note)
        write_example(KINDS, "test")
    return seen[0]


class TestAnExampleThatWeDoNotKnow:
    def read(self, data):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "read_bytes", lambda _: data)
            return write_example(KINDS, "test")

    def test_is_known_as_it_is(self, written):
        assert self.read(written).header == written[:HEADER_BYTES]

    @pytest.mark.parametrize("size", [0, 3, 12, 20, 300, -1, -33])
    def test_is_refused_if_cut_off(self, written, size):
        with pytest.raises(UnknownFormError):
            self.read(written[:size])

    def test_is_refused_in_another_format(self, written):
        with pytest.raises(UnknownFormError, match="RRF3"):
            self.read(b"RRF3" + written[4:])

    @pytest.mark.parametrize("place", [0, 1, -1])
    def test_is_refused_with_a_field_more(self, written, place):
        messages = list(frames(written))
        kind, message = messages[place]
        messages[place] = (kind, message + number(9, 1))
        with pytest.raises(UnknownFormError, match=r"has the fields .*9"):
            self.read(self.join(written, messages))

    def test_is_refused_with_a_message_of_another_kind(self, written):
        (_, first), *others = frames(written)
        with pytest.raises(UnknownFormError, match="of the kinds"):
            self.read(self.join(written, [(STORE, first), (7, b""), *others]))

    def join(self, data, messages):
        joined = data[:HEADER_BYTES]
        for kind, message in messages:
            joined += kind.to_bytes(8, "little") + len(message).to_bytes(8, "little") + message
        return joined + ending(len(joined) - len(message), message)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1))
    def test_is_refused_or_read_whatever_is_damaged(self, written, flips):
        damaged = bytearray(written)
        for place, byte in flips:
            damaged[int(place * len(damaged))] = byte
        with suppress(UnknownFormError):
            self.read(bytes(damaged))

    def test_is_refused_with_a_column_more(self):
        table = write_example(KINDS, "test").table.append(pa.field("chunk_colour", pa.string()))
        with pytest.raises(UnknownFormError, match="chunk_colour"):
            ChunkTable(table, KINDS)

    def test_makes_rerun_write(self, monkeypatch, tmp_path):
        recording._usual_example.cache_clear()
        recording._pattern.cache_clear()
        monkeypatch.setattr(recording, "write_example", refuse)
        factory.write_dataset(tmp_path / "data", [3])
        try:
            (path,) = export_episodes(reel.open_dataset(tmp_path / "data"), tmp_path / "out")
        finally:
            recording._usual_example.cache_clear()
        assert b"rerun-sdk" in path.read_bytes()[:400]

    def test_makes_rerun_write_when_it_is_found_late(self, monkeypatch, tmp_path):
        root = make_sample(tmp_path / "data", SAMPLES["pictures"])

        def refuse_images(kind):
            if rows.IMAGE in kind.components:
                raise UnknownFormError
            return chunk_form(kind)

        known = export_episodes(reel.open_dataset(root), tmp_path / "known")
        monkeypatch.setattr(recording, "chunk_form", refuse_images)
        found = export_episodes(reel.open_dataset(root), tmp_path / "found")
        for one, other in zip(known, found, strict=True):
            assert rows_of(one) == rows_of(other)
            assert b"rerun-sdk" in other.read_bytes()[:400]

    def test_is_refused_with_identities_of_another_form(self, monkeypatch):
        monkeypatch.setattr(example_module, "CHUNK_TEXT", re.compile(b"chunk:.*"))
        chunk_form.cache_clear()
        try:
            with pytest.raises(UnknownFormError, match="identity"):
                chunk_form(KINDS[0])
        finally:
            chunk_form.cache_clear()


def refuse(*_):
    raise UnknownFormError


def test_chunks_of_a_kind_have_the_schema_that_rerun_gives_them():
    form = chunk_form(KINDS[0])
    assert form.schema.names[1:] == ["frame_index", "timestamp", "Scalars:scalars"]
    assert b"rerun:entity_path" in b"".join(form.head)


@given(st.integers(0, 2**63 - 1), st.binary(max_size=300))
def test_fields_come_back(value, data):
    assert read_fields(number(3, value) + nested(20, data)) == {3: value, 20: data}


@given(st.binary(max_size=60))
def test_other_bytes_are_an_error_or_fields(data):
    try:
        fields = read_fields(data)
    except ValueError:
        return
    assert all(isinstance(field, int) for field in fields)


def test_datasets_with_odd_names_are_called_as_rerun_calls_them(tmp_path, monkeypatch):
    factory.write_dataset(tmp_path / "d\u00e4ta set", [3])
    dataset = reel.open_dataset(tmp_path / "d\u00e4ta set")
    (ours,) = export_episodes(dataset, tmp_path / "ours")
    monkeypatch.setattr(recording, "_usual_example", lambda _: None)
    (theirs,) = export_episodes(dataset, tmp_path / "theirs")
    assert [rerun_chunk.RrdReader(path).recordings() for path in (ours,)] == [
        rerun_chunk.RrdReader(path).recordings() for path in (theirs,)
    ]
