"""What every `PacketReader`, `Slots` and `ImageFile` promises."""

import av
import numpy as np
import pytest

from tests.video_factory import numbered_image


class PacketReaderContract:
    """``reader`` reads the packets of the video ``path``."""

    @pytest.fixture
    def reader(self, path):
        raise NotImplementedError

    @pytest.fixture
    def packets(self, path):
        with av.open(str(path)) as container:
            return [bytes(packet) for packet in container.demux(video=0) if packet.size]

    def test_every_packet_is_given_with_its_number(self, reader, packets):
        read = [(number, bytes(data)) for number, data in reader.read(0, len(packets))]
        assert read == list(enumerate(packets))

    @pytest.mark.parametrize(("start", "stop"), [(10, 15), (3, 4), (17, 25), (0, 1), (24, 25)])
    def test_a_span_may_begin_anywhere(self, reader, packets, start, stop):
        read = [(number, bytes(data)) for number, data in reader.read(start, stop)]
        assert read == list(enumerate(packets))[start:stop]

    def test_spans_may_be_read_in_any_order(self, reader, packets):
        for start in (20, 0, 11, 5, 5):
            read = [bytes(data) for _, data in reader.read(start, start + 2)]
            assert read == packets[start : start + 2]

    def test_a_read_may_be_left_early(self, reader, packets):
        for number, data in reader.read(4, 20):
            assert (number, bytes(data)) == (4, packets[4])
            break
        assert [bytes(data) for _, data in reader.read(2, 4)] == packets[2:4]


class SlotsContract:
    """``slots`` has room for ``capacity`` values; ``value(n)`` is the n-th of many."""

    capacity = 6

    @pytest.fixture
    def slots(self, tmp_path):
        raise NotImplementedError

    def value(self, number):
        raise NotImplementedError

    def write(self, slots, slot, numbers):
        with slots.path.open("r+b", buffering=0) as file:
            slots.write(file, slot, slots.encode(np.stack([self.value(n) for n in numbers])))

    def check(self, found, numbers):
        """Compare values with those of these numbers; overridden where storing loses something."""
        assert np.array_equal(found, np.stack([self.value(n) for n in numbers]))

    def test_what_is_written_is_fetched_in_the_order_asked(self, slots):
        self.write(slots, 1, [7, 8, 9])
        self.check(slots.decode(slots.fetch(np.array([3, 1, 1, 2]))), [9, 7, 7, 8])

    def test_values_have_the_shape_of_the_places(self, slots):
        self.write(slots, 0, range(6))
        values = slots.decode(slots.fetch(np.array([[0, 1, 2], [5, 4, 3]])))
        assert values.shape == (2, 3, *self.value(0).shape)
        self.check(values.reshape(6, *self.value(0).shape), [0, 1, 2, 5, 4, 3])

    def test_places_beyond_the_last_slot_go_on_with_the_first(self, slots):
        self.write(slots, 0, range(6))
        self.check(slots.decode(slots.fetch(np.array([6, 11]))), [0, 5])

    def test_what_was_fetched_stays_when_its_slot_is_written_again(self, slots):
        self.write(slots, 2, [1])
        fetched = slots.fetch(np.array([2]))
        self.write(slots, 2, [5])
        self.check(slots.decode(fetched), [1])
        self.check(slots.decode(slots.fetch(np.array([2]))), [5])

    def test_flushed_values_are_in_the_file(self, slots, tmp_path):
        self.write(slots, 0, [3])
        slots.flush()
        assert any(slots.path.read_bytes())


class ImageFileContract:
    """``file`` takes images; ``stored`` gives back what is in it."""

    @pytest.fixture
    def file(self, tmp_path):
        raise NotImplementedError

    def stored(self, file):
        raise NotImplementedError

    def test_every_image_is_stored_in_order(self, file):
        for number in range(11):
            file.write(numbered_image(number))
        assert file.finish() == 11
        assert self.stored(file) == list(range(11))

    def test_a_file_without_images_says_so(self, file):
        assert file.finish() == 0
