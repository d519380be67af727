"""What every `Recording` promises, whatever the format it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roboreel.errors import DatasetError, SourceError
from roboreel.importing import open_recording
from roboreel.importing.opening import find_reader

KINDS = {"numbers", "text", "images", "pictures", "packets", "video", "other"}
LISTS = {"pictures": bytes, "packets": bytes, "text": str}


class RecordingContract:
    """Subclasses write a recording with ``write`` and say what is in it with ``expected``.

    ``expected[stream][episode]`` holds all values of a stream: an array, or a list of bytes or texts.
    ``times[stream][episode]`` holds the log times of a timed recording, in nanoseconds.
    """

    layout: str
    expected: dict[str, Any]
    times: dict[str, Any] | None = None

    def write(self, folder):
        """Write the recording below a folder and return its path."""
        raise NotImplementedError

    @pytest.fixture
    def path(self, tmp_path):
        return self.write(tmp_path)

    @pytest.fixture
    def recording(self, path):
        with open_recording(path) as recording:
            yield recording

    def test_it_is_recognised_by_its_contents(self, recording, path):
        assert recording.layout == self.layout
        assert recording.path == path
        assert find_reader(path) is not None

    def test_streams_have_names_of_their_own_and_known_kinds(self, recording):
        assert set(self.expected) <= set(recording.streams)
        for name, stream in recording.streams.items():
            assert stream.name == name
            assert stream.kind in KINDS
            assert stream.kind != "other" or stream.note

    def test_episodes_have_names_of_their_own(self, recording):
        names = [episode.name for episode in recording.episodes]
        assert len(set(names)) == len(names) > 0

    def test_a_recording_of_steps_has_one_value_of_each_stream_for_each_step(self, recording):
        for episode, source in enumerate(recording.episodes):
            assert (source.length is None) == recording.timed
            for name in recording.streams if not recording.timed else ():
                assert recording.count(episode, name) == source.length

    def test_all_values_are_what_was_written(self, recording):
        for name, episodes in self.expected.items():
            for episode, values in enumerate(episodes):
                count = recording.count(episode, name)
                assert count == len(values)
                read = recording.read(episode, {name: np.arange(count)})[name]
                self.check_equal(recording.streams[name], read, values)

    def test_some_values_of_all_streams_come_in_the_order_asked_with_repeats(self, recording):
        for episode in range(len(recording.episodes)):
            wanted = {}
            for name, episodes in self.expected.items():
                count = len(episodes[episode])
                wanted[name] = np.sort(np.array([0, count // 2, count - 1, count - 1])[:count])
            read = recording.read(episode, wanted)
            assert set(read) == set(wanted)
            for name, positions in wanted.items():
                values = [self.expected[name][episode][i] for i in positions]
                self.check_equal(recording.streams[name], read[name], values)

    def test_no_positions_give_no_values(self, recording):
        for name in self.expected:
            assert len(recording.read(0, {name: np.empty(0, np.int64)})[name]) == 0

    def test_what_is_not_there_is_an_error_that_names_it(self, recording):
        name = next(iter(self.expected))
        with pytest.raises(SourceError, match="no stream 'nothing'"):
            recording.read(0, {"nothing": np.arange(1)})
        with pytest.raises(SourceError, match="values"):
            recording.read(0, {name: np.array([recording.count(0, name)])})
        with pytest.raises(SourceError, match="no episode"):
            recording.read(len(recording.episodes), {name: np.arange(1)})

    def test_times_are_whole_nanoseconds_one_for_each_value(self, recording):
        if not recording.timed:
            with pytest.raises(SourceError, match="no times"):
                recording.times(0, next(iter(self.expected)))
            return
        assert self.times is not None
        for name, episodes in self.times.items():
            assert "log" in recording.streams[name].clocks
            for episode, expected in enumerate(episodes):
                times = recording.times(episode, name)
                assert times.dtype == np.int64
                assert times.tolist() == list(expected)
        for name, stream in recording.streams.items():
            for clock in stream.clocks:
                assert len(recording.times(0, name, clock)) == recording.count(0, name)

    def test_packets_say_where_decoding_starts(self, recording):
        for name, stream in recording.streams.items():
            if stream.kind == "packets":
                keys = recording.keyframes(0, name)
                assert keys.dtype == np.bool_
                assert len(keys) == recording.count(0, name)
                assert keys.any()

    def test_it_can_be_closed_twice_and_opened_again(self, path):
        name = next(iter(self.expected))
        recording = open_recording(path)
        recording.close()
        recording.close()
        with open_recording(path) as again:
            assert again.count(0, name) == len(self.expected[name][0])

    def test_half_of_a_file_is_an_error_with_its_name_or_some_of_its_values(self, path):
        if path.is_dir():
            pytest.skip("a folder: its reader has tests of its own")
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        assert path.name in self.read_all(path)

    def read_all(self, path):
        """Read every value, and return the path or what an error says."""
        try:
            with open_recording(path) as recording:
                for episode in range(len(recording.episodes)):
                    for name in self.expected:
                        count = recording.count(episode, name)
                        recording.read(episode, {name: np.arange(count)})
        except DatasetError as error:
            return str(error)
        return str(path)

    def check_equal(self, stream, read, values):
        if stream.kind in LISTS:
            assert isinstance(read, list)
            assert all(type(value) is LISTS[stream.kind] for value in read)
            assert read == list(values)
            return
        assert isinstance(read, np.ndarray)
        assert str(read.dtype) == stream.dtype
        assert read.shape == (len(values), *stream.shape)
        assert np.array_equal(read, np.asarray(values), equal_nan=read.dtype.kind == "f")
