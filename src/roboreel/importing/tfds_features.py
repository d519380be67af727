"""What features.json of a TensorFlow dataset declares: names, shapes and types of the lists."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roboreel.errors import CorruptFileError, SourceError
from roboreel.io.reading import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_DEPTH = 32


@dataclass(frozen=True, slots=True)
class TFDSFeature:
    """One list of an example."""

    key: str
    """Its name in the example: ``steps/observation/image``."""
    kind: str
    """``numbers``, ``text``, ``image`` or ``other``."""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    """Of one value; -1 for a size that is not declared."""
    encoding: str = ""
    """How tensors are packed: ``bytes`` or ``zlib``; empty for plain lists."""
    is_step: bool = False
    """Whether there is one value for each step, rather than one for the episode."""


def read_features(path: Path) -> list[TFDSFeature]:
    """Return what a file features.json declares.

    Raises:
        CorruptFileError: It cannot be understood.
        SourceError: It does not describe episodes of steps.
    """
    try:
        raw = _modern(json.loads(read_file(path, "features.json")))
        found = list(_features(raw, "", is_step=False, depth=0))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        if isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError(f"features.json cannot be understood: {str(path)!r}.") from error
    if not any(feature.is_step for feature in found):
        raise SourceError(
            f"The dataset has no steps, so it is not one of RLDS episodes: {str(path)!r}."
        )
    return found


def _modern(raw: Any, depth: int = 0) -> Any:  # noqa: ANN401  # JSON
    """Return what versions before 4.5 wrote (``type`` and ``content``) as later ones write it."""
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    if not isinstance(raw, dict) or "content" not in raw or "type" not in raw:
        return raw
    kind = str(raw["type"]).rpartition(".")[2]
    content: Any = raw["content"] or {}
    content = json.loads(content) if isinstance(content, str) else content
    if kind == "FeaturesDict":
        inner = content.get("features", content)
        return {"featuresDict": {"features": {n: _modern(f, depth + 1) for n, f in inner.items()}}}
    if kind in ("Dataset", "Sequence"):
        return {"sequence": {"feature": _modern(content["feature"], depth + 1)}}
    if isinstance(content.get("shape"), list):
        content = {**content, "shape": {"dimensions": content["shape"]}}
    names = {"Text": "text", "Image": "image", "ClassLabel": "classLabel"}
    names |= {"Tensor": "tensor", "Scalar": "tensor"}
    return {names.get(kind, "other"): content}


def _features(raw: Any, key: str, *, is_step: bool, depth: int) -> Iterator[TFDSFeature]:  # noqa: ANN401  # JSON
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    if "featuresDict" in raw:
        for name, inner in raw["featuresDict"].get("features", {}).items():
            below = f"{key}/{name}" if key else name
            yield from _features(inner, below, is_step=is_step, depth=depth + 1)
    elif "sequence" in raw and not is_step and key == "steps":
        yield from _features(raw["sequence"]["feature"], key, is_step=True, depth=depth + 1)
    elif "sequence" in raw and is_step:
        yield _sequence(raw["sequence"], key, depth)
    elif "text" in raw:
        yield TFDSFeature(key, "text", is_step=is_step)
    elif "image" in raw:
        image = raw["image"]
        dtype = _dtype(image.get("dtype") or "uint8")
        yield TFDSFeature(key, "image", dtype, _shape(image), is_step=is_step)
    elif "classLabel" in raw:
        yield TFDSFeature(key, "numbers", "int64", is_step=is_step)
    elif "tensor" in raw:
        yield _tensor(raw["tensor"], key, is_step)
    else:
        yield TFDSFeature(key, "other", is_step=is_step)


def _sequence(sequence: Any, key: str, depth: int) -> TFDSFeature:  # noqa: ANN401  # JSON
    """Return a sequence inside of steps: with a fixed length, it is one more axis of numbers."""
    inner = list(_features(sequence["feature"], key, is_step=True, depth=depth + 1))
    length = int(sequence.get("length") or -1)
    if len(inner) != 1 or inner[0].kind != "numbers" or inner[0].encoding or length < 1:
        return TFDSFeature(key, "other", is_step=True)
    return replace(inner[0], shape=(length, *inner[0].shape))


def _tensor(tensor: Any, key: str, is_step: bool) -> TFDSFeature:  # noqa: ANN401  # JSON
    dtype = _dtype(tensor.get("dtype", ""))
    encoding = str(tensor.get("encoding") or "none").lower()
    if dtype in ("string", "object"):
        kind = "text" if not _shape(tensor) else "other"
        return TFDSFeature(key, kind, is_step=is_step)
    packed = "" if encoding == "none" else encoding
    return TFDSFeature(key, "numbers", dtype, _shape(tensor), packed, is_step)


def _shape(raw: Any) -> tuple[int, ...]:  # noqa: ANN401  # JSON
    dimensions = (raw.get("shape") or {}).get("dimensions") or []
    return tuple(int(size) if size not in (None, "") else -1 for size in dimensions)


def _dtype(name: str) -> str:
    return {"bool_": "bool", "str": "string"}.get(name, name)
