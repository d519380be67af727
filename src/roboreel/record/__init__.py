"""Recording: an episode is on the disk entirely, or not at all."""

from roboreel.format.limits import FileSizes
from roboreel.record.encoded import EncodedImage, EncodedPacket
from roboreel.record.options import RecordingOptions

__all__ = ["EncodedImage", "EncodedPacket", "FileSizes", "RecordingOptions"]
