"""Recordings of other formats become datasets: HDF5, Zarr, RLDS, MCAP, ROS bags, folders of media."""

from roboreel.importing.opening import open_recording
from roboreel.importing.recording import Recording, SourceEpisode, Stream

__all__ = ["Recording", "SourceEpisode", "Stream", "open_recording"]
