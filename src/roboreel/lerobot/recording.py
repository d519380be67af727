"""The recording half of LeRobotDataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roboreel.errors import RecordingError, UnsupportedArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from roboreel.lerobot.metadata import LeRobotDatasetMetadata
    from roboreel.lerobot.writing import EpisodeWriter


class RecordingMethods:
    """Methods that need a writer; ``writer`` is None for a dataset that is only read."""

    meta: LeRobotDatasetMetadata
    repo_id: str
    root: Path
    writer: EpisodeWriter | None
    episodes_since_last_encoding = 0
    """Episodes that are not encoded yet; ``VideoEncodingManager`` of LeRobot 0.4 asks."""

    def add_frame(
        self, frame: Mapping[str, Any], task: str | None = None, timestamp: float | None = None
    ) -> None:
        """Add a frame to the open episode.

        Args:
            frame: A value for every feature, and ``"task"`` unless it is given beside it.
                Tensors, images with channels first and images of floats from 0 to 1 are accepted.
            task: What the robot is doing, in words.
            timestamp: Seconds since the start of the episode; timestamps are counted, so it must be
                that of the frame.

        Raises:
            FrameError: The frame does not fit the features; nothing was added.
            RecordingError: The dataset is only read, or finalized.
        """
        self._recording("add_frame").add_frame(frame, task, timestamp)

    def save_episode(
        self, episode_data: Mapping[str, Any] | None = None, parallel_encoding: bool = True
    ) -> None:
        """Save the open episode; when this returns, it is on the disk and can be read.

        Args:
            episode_data: Not supported: add its frames with `add_frame`.
            parallel_encoding: Has no effect: every camera has its own encoder.

        Raises:
            RecordingError: The dataset is only read, or finalized.
            FrameError: The episode has no frames.
        """
        del parallel_encoding
        if episode_data is not None:
            raise UnsupportedArgumentError(
                "save_episode(episode_data=…) is not supported: add the frames with add_frame."
            )
        self._recording("save_episode").recorder.save_episode()
        self.meta.refresh()

    def clear_episode_buffer(self, delete_images: bool = True) -> None:
        """Drop the open episode, if there is one; its images go with it in any case."""
        del delete_images
        self._recording("clear_episode_buffer").recorder.discard_episode()

    @property
    def episode_buffer(self) -> dict[str, int] | None:
        """The ``"size"`` and ``"episode_index"`` of the open episode; its frames are on the disk."""
        return None if self.writer is None or self.writer.closed else self.writer.episode_buffer

    def start_image_writer(self, num_processes: int = 0, num_threads: int = 4) -> None:
        """Do nothing, in a dataset that is recorded: no temporary image is written."""
        del num_processes, num_threads
        self._recording("start_image_writer")

    def stop_image_writer(self) -> None:
        """Do nothing: no temporary image is written."""

    def has_pending_frames(self) -> bool:
        """Whether the open episode has frames that are not saved."""
        return self.writer is not None and self.writer.num_pending > 0

    def finalize(self) -> None:
        """End recording: join small files, drop an unsaved episode. Calling it twice is safe."""
        if self.writer is not None and not self.writer.closed:
            self.writer.finish()
            self.meta.refresh()

    def push_to_hub(
        self,
        branch: str | None = None,
        tags: Sequence[str] | None = None,
        license: str | None = "apache-2.0",  # noqa: A002  # LeRobot's name
        tag_version: bool = True,
        push_videos: bool = True,
        private: bool | None = None,
        allow_patterns: Sequence[str] | str | None = None,
        upload_large_folder: bool = False,
        **card_kwargs: object,
    ) -> None:
        """Upload the dataset to the Hub under its id: see `roboreel.huggingface.push`.

        Args:
            branch: A branch, made if there is none. Default: ``"main"``.
            tags: Tags of the dataset card, if the dataset has none of its own.
            license: License of that card.
            tag_version: Whether to set the tag of the dataset's version.
            push_videos: Whether to upload videos.
            private: Whether a new repository is private.
            allow_patterns: Upload only files that match one of these.
            upload_large_folder: Has no effect: interrupted uploads resume in any case.
            **card_kwargs: Not supported: write a README.md into the dataset's folder.

        Raises:
            RecordingError: The dataset is being recorded.
        """
        from roboreel.huggingface import push

        del upload_large_folder
        if card_kwargs:
            raise UnsupportedArgumentError(
                f"push_to_hub({next(iter(card_kwargs))}=…) is for the dataset card: write a "
                f"README.md into {str(self.root)!r}."
            )
        self._check_finalized("push_to_hub")
        patterns = [allow_patterns] if isinstance(allow_patterns, str) else allow_patterns
        push(
            self.root,
            self.repo_id,
            revision=branch,
            private=private,
            tag_version=tag_version,
            videos=push_videos,
            patterns=patterns,
            card={"license": license, "tags": list(tags or ())},
        )

    def _get_image_file_path(self, episode_index: int, image_key: str, frame_index: int) -> Path:
        # Asked by ``VideoEncodingManager`` of LeRobot 0.4 for images to remove: there are none.
        return self.root / "images" / image_key / f"{episode_index}" / f"{frame_index}.png"

    def _recording(self, method: str) -> EpisodeWriter:
        if self.writer is None:
            raise RecordingError(
                f"{method}() is for recording, and this dataset is read-only: open it with "
                "LeRobotDataset.create or LeRobotDataset.resume."
            )
        self.writer.check_open(method)
        return self.writer

    def _check_finalized(self, method: str) -> None:
        if self.writer is not None and not self.writer.closed:
            raise RecordingError(f"{method} comes after finalize(): the dataset is being recorded.")
