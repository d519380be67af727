"""Recording: an episode is on the disk entirely, or not at all."""

from roboreel.format.limits import FileSizes
from roboreel.record.options import RecordingOptions

__all__ = ["FileSizes", "RecordingOptions"]
