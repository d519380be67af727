"""Every implementation of a protocol passes the suite of that protocol.

The suites are in ``contracts_*.py``; that of shard stores, `StoreContract`, is in test_store.py.
"""

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import roboreel
import roboreel as reel
from roboreel.image import decode_image
from roboreel.jobs import InProcess, Processes
from roboreel.order.order import Local, LocalOrder, Sequential, Uniform, Weighted
from roboreel.record.cameras import PictureFile, VideoFile
from roboreel.record.journal import read_records
from roboreel.replay.slots import JpegSlots, NumberSlots
from roboreel.schema import Feature
from roboreel.shards import Array, Image, open_shards, write_shards
from roboreel.shards.arrow import features_of_schema
from roboreel.shards.foreign import ForeignFiles
from roboreel.shards.origin import ForeignOrigin, GenerationOrigin, TableOrigin
from roboreel.shards.readers import MappedShard, TableReader
from roboreel.video.demux import DemuxedPackets, demux_packet_table
from roboreel.video.mp4 import read_packet_table
from roboreel.video.packets import FilePackets
from tests.contracts_files import ImageFileContract, PacketReaderContract, SlotsContract
from tests.factory import columns_of, image_of
from tests.format.contracts_format import FormatContract, RecordedImagesContract, write_versions
from tests.jobs.contracts_jobs import ExecutorContract
from tests.loading.contracts_source import (
    CAMERA,
    FEATURES,
    LENGTHS,
    RowsContract,
    SourceContract,
    WindowsContract,
    write,
)
from tests.order.contracts_order import PermutationContract, ShuffleContract
from tests.shards.contracts_shards import FEW, TABLE, BatchReaderContract, OriginContract
from tests.video_factory import HEIGHT, WIDTH, decode_all, number_of, write_video

TESTED = {"Source", "Order", "PacketReader", "ImageFile", "Executor"}
# Protocols with one implementation, or none of ours.
SINGLE = {
    "Client": "the clients of roboreel.remote, through which test_remote reads every dataset",
    "Gathered": "what the tasks of a check have read: roboreel.check.check_job",
    "HasSource": "Store and ReplayBuffer, which test_store_loading loads from",
    "Member": "what a Mixture mixes: the sources of test_contracts and test_store_loading",
    "Session": "an open Executor, which passes ExecutorContract",
    "SourceBytes": "a file of a mirror: roboreel.mirror.mirror",
    "SpanSource": "roboreel.mirror.mirror.Mirror",
    "SampleReader": "Samples and SampleDataset, which test_loader_contract loads from",
    "Readers": "the worker processes of a loader, which test_loader_workers tests",
    "ReadsBatches": "roboreel.Dataset; test_loader_contract reads from it",
}


def test_every_protocol_has_a_suite_or_one_implementation():
    found = set()
    for path in Path(roboreel.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                found |= {node.name} if "Protocol" in bases else set()
    assert found == TESTED | set(SINGLE)


# --- Order


class TestSequential(PermutationContract):
    num_rows = 50

    @pytest.fixture
    def order(self):
        return Sequential(50)


class TestUniform(ShuffleContract, PermutationContract):
    num_rows = 101

    @pytest.fixture
    def order(self):
        return Uniform(101, seed=3)


class TestLocal(ShuffleContract, PermutationContract):
    num_rows = 101

    @pytest.fixture
    def order(self):
        return LocalOrder(101, Local(block=4, buffer=5), seed=3)


class TestWeighted(ShuffleContract):
    num_rows = 60

    @pytest.fixture
    def order(self):
        return Weighted(np.array([10, 30, 20]), np.array([1.0, 0.5, 2.0]), 80, seed=3)


# --- Source

ALL_ROWS = list(range(sum(LENGTHS)))
ROWS_OF = np.split(np.array(ALL_ROWS), np.cumsum(LENGTHS)[:-1])


class TestDataset(SourceContract):
    rows, lengths = ALL_ROWS, LENGTHS

    @pytest.fixture
    def source(self, tmp_path):
        return reel.open_dataset(write(tmp_path / "d"))


class TestDatasetOfV21(SourceContract):
    rows, lengths = ALL_ROWS, LENGTHS

    @pytest.fixture
    def source(self, tmp_path):
        return reel.open_dataset(write(tmp_path / "d", "v2.1"))


class TestView(SourceContract):
    rows, lengths = [*ROWS_OF[0], *ROWS_OF[2]], [LENGTHS[0], LENGTHS[2]]

    @pytest.fixture
    def source(self, tmp_path):
        return reel.open_dataset(write(tmp_path / "d")).select([2, 0])


class TestViewOfAView(SourceContract):
    rows, lengths = [*ROWS_OF[2], *ROWS_OF[3]], [LENGTHS[2], LENGTHS[3]]

    @pytest.fixture
    def source(self, tmp_path):
        view = reel.open_dataset(write(tmp_path / "d")).select([3, 2, 1])
        return view.filter(lambda episode: episode.length > 1)


class TestDatasetWithACache(SourceContract):
    rows, lengths = ALL_ROWS, LENGTHS

    @pytest.fixture
    def source(self, tmp_path):
        dataset = reel.open_dataset(write(tmp_path / "d"))
        return dataset.materialize(tmp_path / "cache", {"*": reel.Raw()})


class TestMixture(SourceContract):
    rows, lengths = [*ALL_ROWS, *ROWS_OF[0], *ROWS_OF[3]], [*LENGTHS, LENGTHS[0], LENGTHS[3]]

    @pytest.fixture
    def source(self, tmp_path):
        first = reel.open_dataset(write(tmp_path / "a"))
        second = reel.open_dataset(write(tmp_path / "b", "v2.1")).select([0, 3])
        return reel.Mixture({first: 0.7, second: 0.3}, features={name: name for name in FEATURES})


class TestStore(RowsContract):
    rows, lengths = ALL_ROWS, [len(ALL_ROWS)]  # without neighbours in time, as one episode

    @pytest.fixture
    def source(self, tmp_path):
        columns = columns_of(FEATURES, 0, len(ALL_ROWS), 0)
        features = {"action": Array((2,), "float32"), "next.done": "bool", CAMERA: Image()}
        examples = (
            {"action": action, "next.done": bool(done), CAMERA: image_of(row)}
            for row, (action, done) in enumerate(
                zip(columns["action"], columns["next.done"], strict=True)
            )
        )
        write_shards(examples, features, tmp_path / "store")
        return open_shards(tmp_path / "store").as_source()


class TestReplayBuffer(WindowsContract):
    rows, lengths, mean_error = ALL_ROWS, LENGTHS, 6.0

    @pytest.fixture
    def source(self, tmp_path):
        features = {name: of for name, of in FEATURES.items() if name != "note"}
        columns = columns_of(FEATURES, 0, len(ALL_ROWS), 0)
        columns["action"] = columns["action"].astype(np.float32)
        columns[CAMERA] = np.stack([image_of(row) for row in ALL_ROWS])
        with reel.ReplayBuffer(tmp_path / "ring", capacity=30, features=features, fps=10) as buffer:
            for rows in ROWS_OF:
                buffer.add_episode({name: columns[name][rows] for name in features})
            yield buffer.as_source()


# --- PacketReader


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("packets") / "v.mp4"
    return write_video(path, range(25), gop=10, bframes=2)


class TestFilePackets(PacketReaderContract):
    @pytest.fixture
    def reader(self, path):
        with FilePackets(path, read_packet_table(path)) as reader:
            yield reader


class TestDemuxedPackets(PacketReaderContract):
    @pytest.fixture
    def reader(self, path):
        with DemuxedPackets(path, demux_packet_table(path)) as reader:
            yield reader


# --- Slots of a replay buffer


def empty_file(path, size_bytes):
    path.write_bytes(bytes(size_bytes))
    return path


class TestNumberSlots(SlotsContract):
    @pytest.fixture
    def slots(self, tmp_path):
        feature = Feature("float32", (3,))
        return NumberSlots(empty_file(tmp_path / "s", self.capacity * 12), feature, self.capacity)

    def value(self, number):
        return np.full(3, number + 0.5, np.float32)


class TestRawImageSlots(SlotsContract):
    @pytest.fixture
    def slots(self, tmp_path):
        feature = Feature("uint8", (8, 12, 3))
        return NumberSlots(empty_file(tmp_path / "s", self.capacity * 288), feature, self.capacity)

    def value(self, number):
        return image_of(number + 1)


class TestJpegSlots(SlotsContract):
    @pytest.fixture
    def slots(self, tmp_path):
        path = empty_file(tmp_path / "s", self.capacity * 2000)
        return JpegSlots(path, Feature("image", (16, 16, 3)), self.capacity, 2000)

    def value(self, number):
        return np.full((16, 16, 3), 20 * number + 10, np.uint8)

    def check(self, found, numbers):
        expected = np.stack([self.value(n) for n in numbers]).astype(int)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 3


# --- ImageFile of a recorder


class TestVideoFile(ImageFileContract):
    @pytest.fixture
    def file(self, tmp_path):
        return VideoFile(tmp_path / "v.mp4", (HEIGHT, WIDTH, 3), 30, reel.Encoding("h264"))

    def stored(self, file):
        return [number_of(image) for image in decode_all(file.path)]


class TestPictureFile(ImageFileContract):
    @pytest.fixture
    def file(self, tmp_path):
        return PictureFile(tmp_path / "pictures")

    def stored(self, file):
        images = [decode_image(record) for record in read_records(file.path)[0]]
        return [number_of(np.asarray(image, np.uint8)) for image in images]


class TestRecordingVideo(RecordedImagesContract):
    store = "video"


class TestRecordingPictures(RecordedImagesContract):
    store = "image"


# --- Format versions


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return write_versions(tmp_path_factory.mktemp("versions"))


class TestV20(FormatContract):
    version = "2.0"


class TestV21(FormatContract):
    version = "2.1"


class TestV30(FormatContract):
    version = "3.0"


# --- BatchReader and Origin of a shard store


def write_arrow(path, new):
    with new(str(path), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=5)
    return path


class TestTableReader(BatchReaderContract):
    @pytest.fixture
    def reader(self):
        return TableReader(pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7)]))


class TestMappedFile(BatchReaderContract):
    @pytest.fixture
    def reader(self, tmp_path):
        return MappedShard(write_arrow(tmp_path / "a.arrow", pa.ipc.new_file))


class TestMappedStream(BatchReaderContract):
    @pytest.fixture
    def reader(self, tmp_path):
        return MappedShard(write_arrow(tmp_path / "a.arrow", pa.ipc.new_stream))


class TestGenerationOrigin(OriginContract):
    @pytest.fixture
    def origin(self, tmp_path):
        write_shards(({"n": n} for n in range(FEW)), {"n": "int64"}, tmp_path / "s", batch_size=5)
        return GenerationOrigin.newest(tmp_path / "s", max_open=4)[0]


class TestForeignOrigin(OriginContract):
    @pytest.fixture
    def origin(self, tmp_path):
        return ForeignOrigin(
            tmp_path, ForeignFiles((write_arrow(tmp_path / "a.arrow", pa.ipc.new_stream),)), 4
        )


class TestTableOrigin(OriginContract):
    @pytest.fixture
    def origin(self):
        return TableOrigin(TABLE, features_of_schema(TABLE.schema))


# --- Executor


class TestTasksInThisProcess(ExecutorContract):
    def executor(self):
        return InProcess()


class TestTasksInProcesses(ExecutorContract):
    def executor(self):
        return Processes(2)
