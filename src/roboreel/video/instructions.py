"""Which instructions an encoder may use, so that it writes the same bytes every time.

x264's code for AVX-512 reads memory behind its tables if a line of blocks is not a multiple of
eight (`mbtree`, seen in x264 core 165 with images of 48 x 64, 224 x 224 and 240 x 320): in one of
a hundred short videos, some images came out slightly different. Its code for AVX2 takes as long,
and writes what machines without AVX-512 write.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def repeatable(encoder: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of an encoder, such that its bytes do not depend on chance."""
    if encoder != "libx264" or not _has_avx512():
        return dict(options)
    given = options.get("x264-params")
    # Parameters are read from left to right, so those of the caller come last.
    return {**options, "x264-params": f"asm=AVX2:{given}" if given else "asm=AVX2"}


@lru_cache(maxsize=1)
def _has_avx512() -> bool:
    """Return whether this machine has AVX-512, and so AVX2, as NumPy found out."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            module = import_module(name)
        except ImportError:  # NumPy 1 has the second one alone.
            continue
        features = getattr(module, "__cpu_features__", {})
        return bool(features.get("AVX512F") and features.get("AVX2"))
    return False
