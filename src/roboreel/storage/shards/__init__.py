"""Any stream of examples as a folder of mapped Arrow files.

::

    writing   features ── values ── examples ── write          what is declared → checked → columns → files
              pictures                                         pixels → encoded bytes
    the disk  publish ── manifest ── validate                  which files count; what they hold; what is wrong
    reading   buffers ── batches ── origin ── store            Arrow buffers → rows → where they lie → Store
"""

from roboreel.storage.shards.features import (
    Array,
    ClassLabel,
    Image,
    Kind,
    Sequence,
    Value,
    VideoPath,
)
from roboreel.storage.shards.manifest import ShardManifest, read_manifest
from roboreel.storage.shards.store import Batch, Store, open_shards
from roboreel.storage.shards.validate import validate_shards
from roboreel.storage.shards.write import write_shards

__all__ = [
    "Array",
    "Batch",
    "ClassLabel",
    "Image",
    "Kind",
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
