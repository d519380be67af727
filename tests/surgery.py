"""Edits of the files of a dataset behind its back, in v2.0, v2.1 and v3.0 alike."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import av
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.clean import CAMERAS, FPS, LENGTHS, film, rows_of, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

Row = dict[str, Any]

LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n"
)


@dataclass(frozen=True)
class Folder:
    """A dataset that `tests.clean.clean_dataset` wrote, whose files can be changed one by one."""

    root: Path

    @property
    def info(self) -> dict[str, Any]:
        """What info.json holds."""
        info: dict[str, Any] = json.loads((self.root / "meta" / "info.json").read_text())
        return info

    @property
    def is_v3(self) -> bool:
        """Whether the dataset has the layout of v3.0."""
        return (self.root / "meta" / "episodes").exists()

    def data(self, episode: int) -> str:
        """Return the data file of an episode, below the folder."""
        return self._path(self.info["data_path"], episode, "data")

    def video(self, camera: str, episode: int) -> str:
        """Return the video file of an episode, below the folder."""
        template = self.info["video_path"]
        return self._path(template, episode, f"videos/{camera}", video_key=camera)

    def episodes_in(self, file: str) -> list[int]:
        """Return the episodes that share a data or video file."""
        count = range(len(LENGTHS))
        if file.startswith("data"):
            return [episode for episode in count if self.data(episode) == file]
        camera = next(camera for camera in CAMERAS if camera in file)
        return [episode for episode in count if self.video(camera, episode) == file]

    def _path(self, template: str, episode: int, prefix: str, **names: str) -> str:
        if not self.is_v3:
            return template.format(episode_chunk=0, episode_index=episode, **names)
        keys = ("chunk_index", "file_index")
        table = pq.read_table(
            self.root / self.episode_table, columns=[f"{prefix}/{key}" for key in keys]
        )
        numbers = {key: table[f"{prefix}/{key}"][episode].as_py() for key in keys}
        return template.format(**numbers, **names)

    # The metadata.

    @property
    def episode_table(self) -> str:
        """The file that lists the episodes."""
        return "meta/episodes/chunk-000/file-000.parquet" if self.is_v3 else "meta/episodes.jsonl"

    @property
    def task_table(self) -> str:
        """The file that lists the tasks."""
        return "meta/tasks.parquet" if self.is_v3 else "meta/tasks.jsonl"

    @property
    def stats_file(self) -> str:
        """The file of statistics: of the whole dataset, or in v2.1 of each episode."""
        version = self.info["codebase_version"]
        return "meta/episodes_stats.jsonl" if version == "v2.1" else "meta/stats.json"

    def edit_info(self, **changes: Any) -> None:
        """Change keys of info.json, which stays spelled as it is written."""
        text = json.dumps({**self.info, **changes}, indent=4, ensure_ascii=False)
        (self.root / "meta" / "info.json").write_text(text)

    def edit_feature(self, name: str, **changes: Any) -> None:
        """Change keys of a feature in info.json."""
        features = self.info["features"]
        self.edit_info(features={**features, name: {**features[name], **changes}})

    def rows(self, file: str) -> list[Row]:
        """Return the rows of a table, in Parquet or in JSON lines."""
        path = self.root / file
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        rows: list[Row] = pq.read_table(path).to_pylist()
        return rows

    def edit_table(self, file: str, change: Callable[[list[Row]], list[Row]]) -> None:
        """Change the rows of a table; in Parquet the columns and their types stay."""
        path, rows = self.root / file, change(self.rows(file))
        if path.suffix == ".jsonl":
            write_lines(path, rows)
        else:
            pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)

    def episode_rows(self) -> list[Row]:
        """Return the rows of the episode table."""
        return self.rows(self.episode_table)

    def edit_episode(self, episode: int, **changes: Any) -> None:
        """Change the row of an episode in the episode table."""
        self.edit_table(
            self.episode_table,
            lambda rows: [
                {**row, **changes} if row["episode_index"] == episode else row for row in rows
            ],
        )

    def edit_stats(self, feature: str, **changes: Any) -> None:
        """Change the statistics of a feature: of the dataset, or in v2.1 of every episode."""
        if self.stats_file.endswith(".jsonl"):
            for row in self.rows(self.stats_file):
                self.edit_episode_stats(row["episode_index"], feature, **changes)
            return
        path = self.root / self.stats_file
        stats = json.loads(path.read_text())
        stats[feature] |= changes
        path.write_text(json.dumps(stats, indent=4))

    def edit_episode_stats(self, episode: int, feature: str, **changes: Any) -> None:
        """Change the statistics of a feature in one episode; v2.0 has none."""
        if self.is_v3:
            self.edit_episode(
                episode, **{f"stats/{feature}/{key}": value for key, value in changes.items()}
            )
            return

        def change(rows: list[Row]) -> list[Row]:
            rows[episode]["stats"][feature] |= changes
            return rows

        self.edit_table(self.stats_file, change)

    # The data.

    def edit_frames(self, episode: int, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the rows of an episode in its data file, which is a row group of it."""
        file = self.data(episode)
        groups = self.row_groups(file)
        place = self.episodes_in(file).index(episode)
        groups[place] = change(groups[place])
        self.write_row_groups(file, groups)

    def edit_column(
        self, episode: int, name: str, change: Callable[[list[Any]], list[Any]]
    ) -> None:
        """Change the values of a column in an episode."""

        def edit(table: pa.Table) -> pa.Table:
            column = table.schema.get_field_index(name)
            field = table.schema.field(column)
            values = change(table.column(column).to_pylist())
            return table.set_column(column, field, pa.array(values, field.type))

        self.edit_frames(episode, edit)

    def edit_all_frames(self, change: Callable[[pa.Table, int], pa.Table]) -> None:
        """Change all data files, given the rows of an episode and its number.

        If columns change, nothing describes them any more, as after a round trip through pandas.
        """
        for file in sorted({self.data(episode) for episode in range(len(LENGTHS))}):
            before = self.row_groups(file)
            pairs = zip(before, self.episodes_in(file), strict=True)
            groups = [change(group, episode) for group, episode in pairs]
            if not groups[0].schema.equals(before[0].schema):
                groups = [group.replace_schema_metadata(None) for group in groups]
            self.write_row_groups(file, groups)

    def row_groups(self, file: str) -> list[pa.Table]:
        """Return the row groups of a data file."""
        with pq.ParquetFile(self.root / file) as parquet:
            return [parquet.read_row_group(group) for group in range(parquet.num_row_groups)]

    def write_row_groups(self, file: str, groups: Iterable[pa.Table]) -> None:
        """Write a data file anew."""
        groups = list(groups)
        with pq.ParquetWriter(self.root / file, groups[0].schema) as writer:
            for group in groups:
                writer.write_table(group, row_group_size=max(1, len(group)))

    # The videos.

    def numbers(self, camera: str, episode: int) -> list[int]:
        """Return what the images of the episode's video file show, those of its neighbours too."""
        episodes = self.episodes_in(self.video(camera, episode))
        return [number for e in episodes for number in shown(camera, rows_of(e))]

    def refilm(
        self,
        camera: str,
        episode: int,
        change: Callable[[list[int]], list[int]],
        size: tuple[int, int] | None = None,
    ) -> str:
        """Film an episode anew with other numbers, and its neighbours in the file as they were.

        Returns:
            The file.
        """
        file = self.video(camera, episode)
        numbers: list[int] = []
        for e in self.episodes_in(file):
            clip = shown(camera, rows_of(e))
            numbers += change(clip) if e == episode else clip
        film(self.root / file, camera, numbers, size)
        return file

    def shift_clip(self, camera: str, episode: int, frames: float) -> None:
        """Let a clip start later than its first image: by the table, or in v2.x by the video."""
        if self.is_v3:
            keys = [f"videos/{camera}/{end}_timestamp" for end in ("from", "to")]
            row = self.episode_rows()[episode]
            self.edit_episode(episode, **{key: row[key] + frames / FPS for key in keys})
        else:
            copy_packets(
                self.root / self.video(camera, episode), shift=lambda ticks: round(frames * ticks)
            )


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines as the clean dataset has them."""
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def copy_packets(
    path: Path,
    *,
    keep: Callable[[int], bool] = lambda _: True,
    shift: Callable[[int], int] = lambda _: 0,
    options: Mapping[str, str] | None = None,
) -> None:
    """Write a video anew with the same packets.

    Args:
        path: The video.
        keep: Whether to keep the packet of this number.
        shift: Ticks by which every packet comes later, given the ticks between two images.
        options: Options of the container.
    """
    copy = path.with_suffix(".copy.mp4")
    with av.open(str(path)) as source, av.open(str(copy), "w", options=dict(options or {})) as out:
        video = source.streams.video[0]
        stream = out.add_stream_from_template(video, opaque=True)
        packets = [packet for packet in source.demux(video) if packet.size]
        later = shift(round(1 / (FPS * video.time_base)))
        for number, packet in enumerate(packets):
            if keep(number):
                packet.pts, packet.dts = packet.pts + later, packet.dts + later
                packet.stream = stream
                out.mux(packet)
    copy.replace(path)


def damage_page(path: Path, row_group: int, column: str) -> None:
    """Overwrite the start of a column's pages in one row group; the rest of the file stays."""
    with pq.ParquetFile(path) as parquet:
        group = parquet.metadata.row_group(row_group)
    chunk = next(
        group.column(i)
        for i in range(group.num_columns)
        if group.column(i).path_in_schema.split(".list")[0] == column
    )
    offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
    overwrite(path, min(offset for offset in offsets if offset is not None), b"\xff" * 24)


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def cut(path: Path, size_bytes: int) -> None:
    """Keep only the first bytes of a file; a negative number cuts so many off its end."""
    content = path.read_bytes()
    path.write_bytes(content[:size_bytes])


def remove_footer(path: Path) -> None:
    """Cut a Parquet file off behind its row groups, as a crash of its writer does."""
    content = path.read_bytes()
    cut(path, len(content) - 8 - int.from_bytes(content[-8:-4], "little"))


def rename_box(path: Path, name: bytes, new: bytes = b"free") -> None:
    """Give an MP4 box another name, inside of the index at the end of the file.

    Readers skip ``free`` boxes.
    """
    content = path.read_bytes()
    before, index, after = content.rpartition(b"moov")
    assert after.count(name) == 1
    path.write_bytes(before + index + after.replace(name, new))


def skip_without_null_lists() -> None:
    """Skip a test if this pyarrow cannot store or read a null among lists of a fixed size."""
    buffer = io.BytesIO()
    table = pa.table({"a": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))})
    try:
        pq.write_table(table, buffer)
        pq.read_table(buffer)
    except pa.ArrowException as error:  # until pyarrow 26
        pytest.skip(f"pyarrow {pa.__version__}: {error}")
