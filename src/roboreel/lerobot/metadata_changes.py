"""The changing half of LeRobotDatasetMetadata: new datasets, and what info.json says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.format.limits import FileSizes
from roboreel.lerobot.language import default_tools
from roboreel.lerobot.writing import create_writer, new_folder
from roboreel.record.opening import resume_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Self

    from roboreel.lerobot.info import Info
    from roboreel.lerobot.writing import EpisodeWriter

_QUEUE_IMAGES = 30


class MetadataChanges:
    """Methods that change the metadata; ``writer`` is None unless the dataset is being recorded."""

    root: Path
    info: Info
    writer: EpisodeWriter | None

    @classmethod
    def create(
        cls,
        repo_id: str,
        fps: int,
        features: Mapping[str, Mapping[str, Any]],
        robot_type: str | None = None,
        root: str | Path | None = None,
        use_videos: bool = True,
        metadata_buffer_size: int = 10,
        chunks_size: int | None = None,
        data_files_size_in_mb: float | None = None,
        video_files_size_in_mb: float | None = None,
    ) -> Self:
        """Make a v3.0 dataset without episodes; `LeRobotDataset.resume` records into it.

        Args:
            repo_id: The dataset's id.
            fps: Frames per second.
            features: What every frame has, as LeRobot declares it.
            robot_type: What the robot is called.
            root: A folder that does not exist yet. Default: one in ``HF_LEROBOT_HOME``.
            use_videos: False if cameras are stored as images.
            metadata_buffer_size: Has no effect: recording writes every episode at once.
            chunks_size: How many files a folder takes.
            data_files_size_in_mb: How large a data file may grow.
            video_files_size_in_mb: How large a video file may grow.

        Raises:
            FolderTakenError: The folder already exists.
            MetadataError: A size is not positive.
        """
        del metadata_buffer_size
        writer = create_writer(
            new_folder(repo_id, root),
            fps=fps,
            features=features,
            robot_type=robot_type,
            use_videos=use_videos,
            encoders={},
            queue_images=_QUEUE_IMAGES,
            files=FileSizes(data_files_size_in_mb, video_files_size_in_mb, chunks_size),
        )
        writer.finish()
        return cls(repo_id, writer.recorder.path)  # type: ignore[call-arg]  # of the whole class

    def update_chunk_settings(
        self,
        chunks_size: int | None = None,
        data_files_size_in_mb: float | None = None,
        video_files_size_in_mb: float | None = None,
    ) -> None:
        """Change how many files a folder takes and how large they grow; None keeps a setting.

        Files that are there stay; those that are joined from now on follow.

        Raises:
            MetadataError: A setting is not positive.
        """
        self._amend(files=FileSizes(data_files_size_in_mb, video_files_size_in_mb, chunks_size))

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the dataset declares, ``say`` if it declares none; may be replaced."""
        return [dict(tool) for tool in self.info.tools or default_tools()]

    @tools.setter
    def tools(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._amend(extra={"tools": [dict(tool) for tool in tools] if tools else None})

    def refresh(self) -> None:
        """Read the metadata again."""
        raise NotImplementedError

    def _amend(
        self, *, files: FileSizes | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        if self.writer is not None and not self.writer.closed:
            self.writer.recorder.amend(files=files, extra=extra)
        else:
            with resume_dataset(
                self.root, open_episode="raise", compact_on_close=False
            ) as recorder:
                recorder.amend(files=files, extra=extra)
        self.refresh()
