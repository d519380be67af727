"""What features accept, refuse and keep."""

import io
from typing import Any

import imagecodecs
import numpy as np
import pyarrow as pa
import pytest

from roboreel.errors import ExampleError, MetadataError
from roboreel.shards import (
    Array,
    ClassLabel,
    Image,
    Sequence,
    Struct,
    Value,
    VideoPath,
    open_shards,
    write_shards,
)
from roboreel.shards.arrow import features_of_schema
from roboreel.shards.features import features_from_json, features_to_json, normalize_features
from roboreel.shards.manifest import fingerprint_of

PixelsOf = imagecodecs.imread


def stored(feature: Any, value: object, path: Any) -> Any:
    write_shards([{"x": value}], {"x": feature}, path / "one", overwrite=True)
    return open_shards(path / "one")[0]["x"]


def test_encoded_bytes_and_files_are_kept_as_they_are(tmp_path):
    jpeg = imagecodecs.jpeg_encode(np.zeros((8, 8, 3), np.uint8))
    (tmp_path / "a.jpg").write_bytes(jpeg)
    for value in (jpeg, bytearray(jpeg), memoryview(jpeg), tmp_path / "a.jpg"):
        assert stored(Image(), value, tmp_path) == jpeg
    assert stored(Image(), str(tmp_path / "a.jpg"), tmp_path) == jpeg


def test_an_array_whose_dtype_comes_first_says_what_comes_first():
    with pytest.raises(TypeError, match=r"comes first: Array\(\(2,\)"):
        Array("float32", (2,))  # type: ignore[arg-type]  # that is what is tested


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4, 6), "uint8"), ((4, 6, 1), "uint8"), ((4, 6, 3), "uint8"), ((4, 6, 4), "uint8"),
     ((4, 6), "uint16"), ((4, 6, 2), "uint8")],
)  # fmt: skip
def test_pixels_become_png_without_loss(tmp_path, shape, dtype):
    pixels = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape).astype(dtype)
    png = stored(Image(), pixels, tmp_path)
    assert png.startswith(b"\x89PNG")
    assert np.array_equal(PixelsOf(png), pixels.squeeze())


def test_a_pillow_image_keeps_its_format_unless_that_loses_something(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    pixels = (
        np.add.outer(np.arange(48), np.arange(48)).repeat(3).reshape(48, 48, 3).astype(np.uint8)
    )
    for name, mode, magic in (
        ("JPEG", "RGB", b"\xff\xd8"),
        ("PNG", "RGB", b"\x89PNG"),
        ("TIFF", "RGB", b"II*\x00"),
        ("PNG", "RGBA", b"\x89PNG"),
        ("GIF", "P", b"\x89PNG"),
    ):
        buffer = io.BytesIO()
        pillow.fromarray(pixels).convert(mode).save(buffer, format=name)
        with pillow.open(buffer) as image:
            kept = stored(Image(), image, tmp_path)
            assert kept.startswith(magic)
            again = np.asarray(pillow.open(io.BytesIO(kept)).convert("RGBA"), np.int16)
            before = np.asarray(image.convert("RGBA"), np.int16)
            assert np.abs(again - before).max() <= (4 if name == "JPEG" else 0)
    assert stored(Image(), pillow.fromarray(pixels), tmp_path).startswith(b"\x89PNG")


def test_a_generator_may_reuse_its_buffer_and_close_its_image(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    buffer, state, path = np.zeros((64, 64, 3), np.uint8), np.zeros(2), tmp_path / "a.png"

    def examples() -> Any:
        for n in range(50):
            buffer[:] = n
            state[:] = n
            path.write_bytes(imagecodecs.png_encode(buffer))
            with pillow.open(path) as image:
                yield {"pixels": buffer, "file": path, "pillow": image, "state": state}

    features = dict.fromkeys(("pixels", "file", "pillow"), Image()) | {
        "state": Array((2,), "float64")
    }
    write_shards(examples(), features, tmp_path / "s", threads=2)
    for n, row in enumerate(open_shards(tmp_path / "s").decoded()):
        assert all((row[name] == n).all() for name in row)


@pytest.mark.parametrize(
    ("feature", "value", "reason"),
    [
        (Value("int64"), 1.5, "expected int64, got float64"),
        (Value("int64"), "1", "expected one int64, got str '1'"),
        (Value("int64"), [1], "expected one int64"),
        (Value("uint8"), 256, "256 is out of range for uint8, 0 to 255"),
        (Value("uint8"), -1, "-1 is out of range for uint8"),
        (Value("int64"), 2**64, "out of range for int64|expected int64, got"),
        (Value("float32"), 1e300, "1e.300 is out of range for float32"),
        (Value("bool"), 1, "expected bool"),
        (Value("int64"), True, "expected int64, got bool"),
        (Value("string"), b"a", "expected text, got bytes"),
        (Value("string"), "\ud800", "surrogates"),
        (Value("bytes"), "a", "expected bytes"),
        (ClassLabel(["cat"]), "dog", "'dog' is not one of the labels 'cat'"),
        (ClassLabel(["cat"]), 1, "label 1 does not exist: there are 1, 0 to 0"),
        (ClassLabel(["cat"]), 0.0, "expected the name or number of a label"),
        (Array((2, 2), "float32"), np.zeros((2, 3)), r"expected shape \(2, 2\), got \(2, 3\)"),
        (Array((2,), "uint8"), [0, 300], "300 is out of range for uint8"),
        (Array((2,), "int8"), [0.5, 0], "expected int8, got float64"),
        (Array((2,), "float32"), [1.0, None], "expected float32, got object"),
        (Sequence("float32", 7), [1.0], r"expected shape \(7,\), got \(1,\)"),
        (Sequence("string"), "text", "expected a list, got str"),
        (Image(), np.zeros((4, 4)), "expected pixels of uint8 or uint16, got float64"),
        (Image(), np.zeros((3, 4, 8), np.uint8), r"expected pixels .*, got \(3, 4, 8\)"),
        (Image(), 5, "expected bytes, a path, a Pillow image or an array, got int"),
        (Image(), "absent.jpg", "absent.jpg"),
        (VideoPath(), 5, "expected the path of a video"),
        ({"a": "int8"}, 5, "expected a dict"),
        ({"a": "int8"}, {"b": 1}, "expected the names 'a', got 'b'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_feature_and_example(tmp_path, feature, value, reason):
    examples: list[dict[str, Any]] = [{"x": None}, {"x": value}]
    with pytest.raises(ExampleError, match=rf"(?s)Example 1: 'x': .*({reason})"):
        write_shards(examples, {"x": feature}, tmp_path / "s")


def test_a_place_inside_a_value_is_named(tmp_path):
    examples: list[dict[str, Any]] = [{"x": [{"y": 1}, {"y": "no"}]}]
    with pytest.raises(ExampleError, match=r"Example 0: 'x\[1\]\.y': expected one int8"):
        write_shards(examples, {"x": [{"y": "int8"}]}, tmp_path / "s")


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        ({}, "'x' is missing; give None"),
        ({"x": 1, "y": 2}, "'y' is not one of the features 'x'"),
        ([1], "expected a dict of features, got list"),
    ],
)
def test_an_example_has_exactly_the_features(tmp_path, example, reason):
    with pytest.raises(ExampleError, match=f"Example 0: {reason}"):
        write_shards([example], {"x": "int64"}, tmp_path / "s")


@pytest.mark.parametrize(
    ("declare", "arguments"),
    [
        (Value, ("complex64",)), (ClassLabel, ([],)), (ClassLabel, (["a", "a"],)),
        (Array, ((), "int8")), (Array, ((0, 2), "int8")), (Array, ((2,), "string")),
        (Sequence, ("int8", 0)), (Sequence, (Image(), 3)), (Sequence, (5,)),
        (normalize_features, ({},)), (normalize_features, ({"": "int8"},)),
        (normalize_features, ({"x": ["int8", "int8"]},)),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)  # fmt: skip
def test_a_feature_that_cannot_be_is_refused_when_declared(declare, arguments):
    with pytest.raises(ValueError, match=r"Not |needs|Only|There are no"):
        declare(*arguments)


def test_a_struct_is_what_a_dict_of_features_means():
    assert (
        Struct({"x": "int8", "y": ["string"]})
        == normalize_features({"a": {"x": Value("int8"), "y": Sequence("string")}})["a"]
    )
    with pytest.raises(MetadataError, match="the Arrow type struct<>"):
        features_of_schema(pa.schema([("empty", pa.struct([]))]))


def test_features_survive_json_and_the_schema():
    declared = {
        "a": Image(),
        "b": ["string"],
        "c": {"d": Array((2, 3), "bool"), "e": ClassLabel("xy")},
    }
    features = normalize_features(declared | {"f": VideoPath(), "g": Sequence("float32", 7)})
    assert features_from_json(features_to_json(features)) == features
    # A store that was written by an earlier roboreel is still found.
    assert fingerprint_of(features, {"seed": 0}) == "ce9d66a56248df003b6a474e2f344ecb"


@pytest.mark.parametrize(
    "plain", [None, 5, [["a"]], [["a", {}]], [["a", {"kind": "x"}]], {}, [[1, {"kind": "image"}]]]
)
def test_json_that_describes_no_features_is_refused(plain):
    with pytest.raises(MetadataError, match="Not a description of features"):
        features_from_json(plain)


def test_a_column_of_another_type_is_refused_with_its_name():
    with pytest.raises(MetadataError, match=r"Column 'price' has the Arrow type decimal"):
        features_of_schema(pa.schema([("price", pa.decimal128(5, 2))]))


def test_a_table_without_columns_is_refused_as_damaged():
    with pytest.raises(MetadataError, match="no columns"):
        features_of_schema(pa.schema([]))
