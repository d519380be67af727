"""Shard stores: any stream of examples as a folder of memory-mapped Arrow files.

::

    from roboreel.shards import ClassLabel, Image, open_shards, write_shards

    features = {"image": Image(), "label": ClassLabel(["cat", "dog"]), "score": "float32"}
    write_shards(examples(), features, "cache/train")
    store = open_shards("cache/train")

Reading and writing:

* `write_shards` writes examples, at about two batches of memory.
* `open_shards` opens a folder as a `Store`: rows, batches of columns (`Batch`), Arrow tables,
  views, splits; `Store.map` and `Store.flatten` write new stores.
* `store_name` makes a stable folder name of a dataset's name, version, configuration and split.
* `validate_shards` finds damage and staleness.
* `read_manifest` returns the `ShardManifest`, with a `Shard` for each file.

Features, each a `FeatureType`:

* `Value`, or its dtype as a string: a number, text or bytes.
* `ClassLabel`: one of several names.
* `Array`: numbers of a fixed shape.
* `Sequence`, or a list of one feature: a list of any length, or numbers of a fixed one.
* `Image`: an encoded image.
* `VideoPath`: the path of a video.
* `Struct`, or a dict of features: named values.

The modules::

    writing    features   types to declare               values     checks one value
               pictures   images to encoded bytes        examples   examples to record batches
               write      record batches to files        naming     names of folders
               arrow      features and Arrow types
    folder     publish    which files are current        manifest   what they hold
               validate   what is wrong with them
    reading    readers    files to record batches        buffers    Arrow arrays to values
               batches    all batches as one table       decode     encoded images to arrays
               origin     where a store can be reopened  foreign    files of other tools
               columns    some columns at some rows      opening    paths to stores
               reading    rows, batches, tables          store      what a user has
    deriving   derive     rows that are copied, progress source     rows as training samples
"""

from roboreel.shards.features import (
    Array,
    ClassLabel,
    FeatureType,
    Image,
    Sequence,
    Struct,
    Value,
    VideoPath,
)
from roboreel.shards.manifest import Shard, ShardManifest, read_manifest
from roboreel.shards.naming import store_name
from roboreel.shards.opening import open_shards
from roboreel.shards.store import Batch, Store
from roboreel.shards.validate import validate_shards
from roboreel.shards.write import write_shards

__all__ = [
    "Array",
    "Batch",
    "ClassLabel",
    "FeatureType",
    "Image",
    "Sequence",
    "Shard",
    "ShardManifest",
    "Store",
    "Struct",
    "Value",
    "VideoPath",
    "open_shards",
    "read_manifest",
    "store_name",
    "validate_shards",
    "write_shards",
]
