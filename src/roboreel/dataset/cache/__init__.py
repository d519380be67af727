"""Training caches: a dataset decoded once, then read at memory-map speed.

::

    pictures   how a camera's images are stored: Jpeg or Raw
    manifest   what a cache holds, and the state of the dataset it was built from
    build      decodes a dataset into a cache, and estimates the cost
    reader     reads rows of a cache
    home       the folder of caches: names, list, verify, prune, remove
"""

from roboreel.dataset.cache.manifest import CacheManifest
from roboreel.dataset.cache.pictures import Jpeg, Picture, Raw
from roboreel.dataset.cache.reader import Cache, open_cache

__all__ = ["Cache", "CacheManifest", "Jpeg", "Picture", "Raw", "open_cache"]
