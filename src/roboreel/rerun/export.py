"""Episodes into the viewer, and into files."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rerun as rr
from rerun.chunk import LazyChunkStream

from roboreel.errors import DatasetError
from roboreel.files import atomic_file, remove_leftovers, write_atomically
from roboreel.rerun.blueprint import blueprint_bytes, default_blueprint
from roboreel.rerun.episode_chunks import EpisodeChunks

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from rerun.chunk import Chunk

    from roboreel.dataset import Dataset, Episode

BLUEPRINT_FILE = "blueprint.rbl"


def log_episode(
    dataset: Dataset, episode: int, *, recording: rr.RecordingStream | None = None
) -> None:
    """Send an episode to a recording. Images and videos are sent as stored, undecoded.

    Args:
        dataset: A dataset or a view.
        episode: The episode's number.
        recording: Where to send it. Default: the current recording, as set by ``rerun.init``.

    Raises:
        EpisodeNotFoundError: There is no such episode.
        MissingFileError: A data or video file is missing.
        UnsupportedVideoError: Rerun does not show the codec of a camera.
    """
    chosen = dataset.select([episode]).episodes[0]
    with lend_chunks(EpisodeChunks(dataset.frame_reader).of(chosen)) as chunks:
        rr.send_chunks(chunks, recording=recording)
    rr.send_blueprint(default_blueprint(dataset.manifest), make_active=False, recording=recording)


def export_episodes(
    dataset: Dataset,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    on_episode: Callable[[int], object] = lambda _: None,
    on_problem: Callable[[str], object] = lambda _: None,
) -> list[Path]:
    """Write each episode of a dataset or view to a recording of its own.

    Files appear complete or not at all. Existing files are kept, so an interrupted export resumes
    where it stopped. Memory does not grow with the number of episodes.

    Args:
        dataset: What to export; ``dataset.select([0, 4, 7])`` for some episodes.
        out: A folder, created if needed. It receives ``episode_000004.rrd`` for each episode, and
            one ``blueprint.rbl`` with the layout for all of them.
        overwrite: Replace existing files.
        on_episode: Called after each episode with the number of episodes done.
        on_problem: Called with a sentence for each thing that could not be shown.

    Returns:
        The recordings, in the order of the episodes.

    Raises:
        MissingFileError: A data or video file is missing.
        UnsupportedVideoError: Rerun does not show the codec of a camera.
    """
    folder, made = Path(out).expanduser(), EpisodeChunks(dataset.frame_reader, on_problem)
    remove_leftovers(folder)
    # Not with every call: Rerun keeps a megabyte for each layout that it has ever saved.
    if overwrite or not (folder / BLUEPRINT_FILE).exists():
        layout = blueprint_bytes(default_blueprint(dataset.manifest), made.name)
        write_atomically(folder / BLUEPRINT_FILE, layout)
    paths = [folder / f"{recording_id(episode)}.rrd" for episode in dataset.episodes]
    for done, (episode, path) in enumerate(zip(dataset.episodes, paths, strict=True), start=1):
        if overwrite or not path.exists():
            with (
                atomic_file(path) as temporary,
                lend_chunks(made.of(episode)) as chunks,
            ):
                LazyChunkStream.from_iter(chunks).write_rrd(
                    temporary, application_id=made.name, recording_id=recording_id(episode)
                )
        on_episode(done)
    return paths


def send_episodes(
    dataset: Dataset,
    address: str,
    *,
    on_episode: Callable[[int], object] = lambda _: None,
    on_problem: Callable[[str], object] = lambda _: None,
) -> None:
    """Send each episode of a dataset or view to a viewer, or to a viewer's server.

    Args:
        dataset: What to send.
        address: Where the viewer listens, such as ``rerun+http://127.0.0.1:9876/proxy``.
        on_episode: Called after each episode with the number of episodes done.
        on_problem: Called with a sentence for each thing that could not be shown.

    Raises:
        MissingFileError: A data or video file is missing.
        UnsupportedVideoError: Rerun does not show the codec of a camera.
    """
    made, layout = (
        EpisodeChunks(dataset.frame_reader, on_problem),
        default_blueprint(dataset.manifest),
    )
    for done, episode in enumerate(dataset.episodes, start=1):
        recording = rr.RecordingStream(
            made.name, recording_id=recording_id(episode), send_properties=False
        )
        recording.connect_grpc(address, default_blueprint=layout)
        with lend_chunks(made.of(episode)) as chunks:
            rr.send_chunks(chunks, recording=recording)
        recording.flush()
        recording.disconnect()
        on_episode(done)


def recording_id(episode: Episode) -> str:
    """Return the name of an episode's recording. Sorted by name, recordings are in order."""
    return f"episode_{episode.number:06d}"


@contextmanager
def lend_chunks(chunks: Iterable[Chunk]) -> Iterator[Iterator[Chunk]]:
    """Lend chunks to Rerun, and raise what making them raised: Rerun turns it into RuntimeError.

    Raises:
        DatasetError: Rerun itself failed.
    """
    raised: list[BaseException] = []

    def lent() -> Iterator[Chunk]:
        try:
            yield from chunks
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    try:
        yield lent()
    except RuntimeError as error:
        if raised:
            raise raised[0] from None
        if str(error).startswith("KeyboardInterrupt"):  # It came between two chunks.
            raise KeyboardInterrupt from None
        # A full or broken disk, for example.
        raise DatasetError(f"Rerun cannot store the recording: {error}") from error
