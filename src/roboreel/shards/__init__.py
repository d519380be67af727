"""Any stream of examples as a folder of mapped Arrow files.

::

    writing    features   what a user declares
               values     one value, checked             pictures   pixels as encoded bytes
               examples   examples as record batches     write      batches as files
    the folder publish    which files count              manifest   what they hold
               validate   what is wrong with them
    reading    readers    files as record batches        buffers    record batches as rows
               batches    all rows, counted through      disk       whether reads wait for it
               origin     how to open them again         store      the friendly face
"""

from roboreel.shards.features import (
    Array,
    ClassLabel,
    FeatureType,
    Image,
    Sequence,
    Value,
    VideoPath,
)
from roboreel.shards.manifest import ShardManifest, read_manifest
from roboreel.shards.store import Batch, Store, open_shards
from roboreel.shards.validate import validate_shards
from roboreel.shards.write import write_shards

__all__ = [
    "Array",
    "Batch",
    "ClassLabel",
    "FeatureType",
    "Image",
    "Sequence",
    "ShardManifest",
    "Store",
    "Value",
    "VideoPath",
    "open_shards",
    "read_manifest",
    "validate_shards",
    "write_shards",
]
