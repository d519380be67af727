"""Every error that roboreel raises on purpose.

::

    DatasetError
    ├── NotADatasetError        (FileNotFoundError)  no LeRobot dataset at this path
    ├── UnsupportedVersionError (ValueError)         a dataset, but of a version we do not read
    ├── MetadataError           (ValueError)         a metadata file cannot be understood
    ├── UnsafePathError         (ValueError)         a template or name leads out of the dataset
    ├── EpisodeNotFoundError    (IndexError)         an episode that does not exist
    ├── FeatureError            (ValueError)         a feature of an impossible dtype or shape
    ├── FeatureNotFoundError    (KeyError)           a feature that does not exist
    ├── TaskNotFoundError       (LookupError)        a task that no episode has
    ├── RowNotFoundError        (IndexError)         a row or sample outside the dataset
    ├── MissingFileError        (FileNotFoundError)  a data or video file that the metadata names
    ├── CorruptFileError        (ValueError)         bytes that are not what they should be
    ├── MissingValueError       (ValueError)         a null where a value must be
    ├── MissingImageError       (LookupError)        a frame for which the video has no image
    ├── UnsupportedVideoError   (ValueError)         a video of a kind that we do not read
    ├── WindowError             (ValueError)         offsets that do not fall on frames
    ├── EncodingError           (ValueError)         images or packets that cannot become a video
    ├── EditError               (ValueError)         an edit that cannot be made as asked
    ├── SourceError             (ValueError)         a recording that cannot be imported as asked
    ├── SampleError             (RuntimeError)       a transform that failed on a sample or batch
    ├── WorkerError             (RuntimeError)       a worker process that ended or cannot start
    ├── UnsupportedArgumentError (ValueError)        what LeRobot offers and roboreel does not
    ├── FrameError              (ValueError)         values that do not fit the declared features
    ├── BufferMismatchError     (ValueError)         a replay buffer of other features or capacity
    ├── BufferInUseError        (RuntimeError)       another process writes to a replay buffer
    ├── EmptyBufferError        (LookupError)        nothing to draw from a replay buffer
    ├── ExampleError            (ValueError)         an example that does not fit its features
    ├── QueryError              (ValueError)         a condition on episodes that cannot be answered
    ├── ViewError               (ValueError)         a saved view that is not there or not readable
    ├── CacheError              (ValueError)         a training cache that is not there or is stale
    ├── JobError                (RuntimeError)       a job that is not there, not complete, or failed
    ├── DatasetInUseError       (RuntimeError)       another process changes a dataset
    ├── ForeignChangeError      (PermissionError)    an interrupted change of another user
    ├── StaleDatasetError       (RuntimeError)       a dataset that changed after it was opened
    ├── UndoError               (RuntimeError)       a change that cannot be undone
    ├── UnfinishedChangeError   (RuntimeError)       a change that was decided and not finished
    ├── RecordingError          (RuntimeError)       a recording that cannot go on as asked
    │   └── FolderTakenError    (FileExistsError)    no place for a new dataset: something is there
    ├── RemoteError             (ConnectionError)    a remote file that cannot be fetched
    │   ├── DatasetChangedError (RuntimeError)       a remote file that changed since it was opened
    │   └── MirrorError         (ConnectionError)    no room in the mirror for what is needed
    ├── TooLargeError           (ValueError)         values that do not fit in the memory budget
    ├── TooManyFilesError       (OSError)            no further file may be opened
    └── TooSlowError            (TimeoutError)       a camera's images come faster than they are stored
"""

__all__ = [
    "BufferInUseError",
    "BufferMismatchError",
    "CacheError",
    "CorruptFileError",
    "DatasetChangedError",
    "DatasetError",
    "DatasetInUseError",
    "EditError",
    "EmptyBufferError",
    "EncodingError",
    "EpisodeNotFoundError",
    "ExampleError",
    "FeatureError",
    "FeatureNotFoundError",
    "FolderTakenError",
    "ForeignChangeError",
    "FrameError",
    "JobError",
    "MetadataError",
    "MirrorError",
    "MissingFileError",
    "MissingImageError",
    "MissingValueError",
    "NotADatasetError",
    "QueryError",
    "RecordingError",
    "RemoteError",
    "RowNotFoundError",
    "SampleError",
    "SourceError",
    "StaleDatasetError",
    "TaskNotFoundError",
    "TooLargeError",
    "TooManyFilesError",
    "TooSlowError",
    "UndoError",
    "UnfinishedChangeError",
    "UnsafePathError",
    "UnsupportedArgumentError",
    "UnsupportedVersionError",
    "UnsupportedVideoError",
    "ViewError",
    "WindowError",
    "WorkerError",
]


class DatasetError(Exception):
    """What all errors of roboreel share."""


class NotADatasetError(DatasetError, FileNotFoundError):
    """There is no LeRobot dataset at a path."""


class UnsupportedVersionError(DatasetError, ValueError):
    """A dataset is of a version that roboreel does not read."""


class MetadataError(DatasetError, ValueError):
    """A metadata file cannot be understood."""


class UnsafePathError(DatasetError, ValueError):
    """A path template, a name or a symbolic link would lead out of the dataset's folder."""


class EpisodeNotFoundError(DatasetError, IndexError):
    """An episode does not exist."""


class FeatureError(DatasetError, ValueError):
    """A feature is declared with a dtype, a shape or a depth that cannot be."""


class FeatureNotFoundError(DatasetError, KeyError):
    """A feature does not exist."""

    def __str__(self) -> str:
        # KeyError prints the repr of its argument, which hides a sentence in quotes.
        return str(self.args[0]) if self.args else ""


class TaskNotFoundError(DatasetError, LookupError):
    """A task was named that no episode has."""


class RowNotFoundError(DatasetError, IndexError):
    """A row or a sample lies outside the dataset."""


class MissingFileError(DatasetError, FileNotFoundError):
    """A data or video file that the metadata names is not there."""


class CorruptFileError(DatasetError, ValueError):
    """The bytes of a file are not what they should be."""


class MissingValueError(DatasetError, ValueError):
    """A value is null where one must be."""


class MissingImageError(DatasetError, LookupError):
    """The video has no image for a frame of an episode."""


class UnsupportedVideoError(DatasetError, ValueError):
    """A video is whole, but of a kind that roboreel does not read."""


class WindowError(DatasetError, ValueError):
    """The offsets of a window do not fall on frames."""


class EditError(DatasetError, ValueError):
    """An edit that cannot be made as asked."""


class SourceError(DatasetError, ValueError):
    """A recording of another format cannot be imported as asked."""


class EncodingError(DatasetError, ValueError):
    """Images or packets cannot become one video."""


class SampleError(DatasetError, RuntimeError):
    """A transform failed on a sample or a batch."""


class WorkerError(DatasetError, RuntimeError):
    """A worker process of a loader ended, or cannot be started."""


class UnsupportedArgumentError(DatasetError, ValueError):
    """An argument or method that LeRobot offers is not offered here."""


class FrameError(DatasetError, ValueError):
    """The values of a frame or an episode do not fit the declared features."""


class BufferMismatchError(DatasetError, ValueError):
    """A replay buffer has other features or another capacity than asked for."""


class BufferInUseError(DatasetError, RuntimeError):
    """Another process writes to a replay buffer."""


class EmptyBufferError(DatasetError, LookupError):
    """A replay buffer holds nothing that could be drawn."""


class ExampleError(DatasetError, ValueError):
    """An example does not fit the features it was declared to have."""


class QueryError(DatasetError, ValueError):
    """A condition on episodes cannot be understood, or names what does not exist."""


class ViewError(DatasetError, ValueError):
    """A saved view does not exist, has an invalid name, or cannot be read."""


class CacheError(DatasetError, ValueError):
    """A training cache is not there, or was made from another state of its dataset."""


class JobError(DatasetError, RuntimeError):
    """A job is not there, is not complete, or some of its tasks failed."""


class DatasetInUseError(DatasetError, RuntimeError):
    """Another process changes a dataset."""


class ForeignChangeError(DatasetError, PermissionError):
    """A change that another user decided was interrupted, and is not finished unasked."""


class UndoError(DatasetError, RuntimeError):
    """A change cannot be undone, or there is none."""


class UnfinishedChangeError(DatasetError, RuntimeError):
    """An edit, a repair or an undo was decided and not finished, so the dataset is neither old nor new."""


class StaleDatasetError(DatasetError, RuntimeError):
    """A dataset has changed since it was opened, a plan for it was made, or a view was saved."""


class RecordingError(DatasetError, RuntimeError):
    """A recording cannot go on as asked."""


class FolderTakenError(RecordingError, FileExistsError):
    """A new dataset cannot be made at a path: something is there."""


class RemoteError(DatasetError, ConnectionError):
    """A file of a remote dataset cannot be fetched."""


class DatasetChangedError(RemoteError, RuntimeError):
    """A file of a remote dataset has changed since the dataset was opened."""


class MirrorError(RemoteError):
    """The mirror of a remote dataset has no room for what is needed, or cannot be used."""


class TooLargeError(DatasetError, ValueError):
    """Values do not fit in the memory budget."""


class TooManyFilesError(DatasetError, OSError):
    """The process, or the system, may not open another file."""


class TooSlowError(DatasetError, TimeoutError):
    """The images of a camera come faster than they can be stored."""
