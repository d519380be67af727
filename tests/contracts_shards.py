"""What every `Origin` and `BatchReader` of a shard store promises; `StoreContract` is above them."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

ROWS = 17
TABLE = pa.table({"n": pa.array(range(ROWS), pa.int64())})


class BatchReaderContract:
    """``reader`` has the rows of `TABLE`."""

    @pytest.fixture
    def reader(self, tmp_path):
        raise NotImplementedError

    def numbers(self, reader, batches):
        return [n for batch in batches for n in reader.read(batch)["n"].to_pylist()]

    def test_the_batches_hold_all_rows(self, reader):
        assert sum(reader.batch_rows) == ROWS
        assert self.numbers(reader, range(len(reader.batch_rows))) == list(range(ROWS))

    def test_each_batch_has_the_rows_that_were_announced(self, reader):
        for batch, rows in enumerate(reader.batch_rows):
            assert reader.read(batch).num_rows == rows

    def test_batches_may_be_read_in_any_order(self, reader):
        last = len(reader.batch_rows) - 1
        assert self.numbers(reader, [last])[-1] == ROWS - 1
        assert self.numbers(reader, [0])[0] == 0

    def test_a_batch_outlives_its_reader_and_a_closed_reader_opens_again(self, reader):
        held = reader.read(0)
        reader.close()
        assert held["n"][0].as_py() == 0
        assert reader.read(0).equals(held)

    def test_prefetching_changes_nothing(self, reader):
        buffer = reader.read(0)["n"].buffers()[1]
        reader.prefetch([(buffer.address, buffer.size)])
        reader.prefetch([])
        assert self.numbers(reader, [0])[0] == 0

    def test_it_names_its_place(self, reader):
        assert str(reader)


class OriginContract:
    """``origin`` opens rows with a feature ``n`` that counts them."""

    @pytest.fixture
    def origin(self, tmp_path):
        raise NotImplementedError

    def numbers(self, origin):
        rows = origin.open()
        assert rows.num_rows == ROWS
        return rows.gather(np.arange(ROWS), ["n"])["n"].tolist()

    def test_the_rows_can_be_opened_again_and_again(self, origin):
        assert self.numbers(origin) == self.numbers(origin) == list(range(ROWS))

    def test_nothing_is_mapped_until_it_is_read(self, origin):
        rows = origin.open()
        assert rows.num_open == 0
        assert rows.row(3)["n"] == 3

    def test_another_process_opens_the_same_rows(self, origin):
        copy = pickle.loads(pickle.dumps(origin))
        assert self.numbers(copy) == list(range(ROWS))
        assert str(copy) == str(origin)
