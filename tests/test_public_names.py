"""The public names: adding one is a decision."""

import importlib
import subprocess
import sys

import pytest

import roboreel

PUBLIC = {
    "Dataset",
    "DatasetError",
    "Depth",
    "Encoding",
    "Episode",
    "Feature",
    "Jpeg",
    "Mixture",
    "Raw",
    "Recorder",
    "ReplayBuffer",
    "SampleSpec",
    "Window",
    "__version__",
    "create_dataset",
    "edit_dataset",
    "open_dataset",
    "open_shards",
    "resume_dataset",
    "save_view",
    "write_shards",
}


def test_the_public_names_are_these():
    assert set(roboreel.__all__) == PUBLIC
    assert set(dir(roboreel)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name):
    value = getattr(roboreel, name)
    assert name == "__version__" or value.__doc__


def test_the_contents_in_the_docstring_are_complete():
    contents = roboreel.__doc__.split("::")[1].split("Further names")[0]
    listed = {word.rstrip(",:") for word in contents.split()}
    assert listed >= PUBLIC - {"__version__"}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("roboreel.shards", ["Array", "ClassLabel", "Image", "Sequence", "Store", "Struct"]),
        ("roboreel.shards", ["Value", "VideoPath", "validate_shards"]),
        ("roboreel.lerobot", ["LeRobotDataset", "LeRobotDatasetMetadata"]),
        ("roboreel.lerobot", ["MultiLeRobotDataset", "StreamingLeRobotDataset"]),
        ("roboreel.dataset", ["Normalize", "Relative", "Unnormalize"]),
        ("roboreel.loading", ["Loader", "Local", "Samples", "Skip"]),
        (
            "roboreel.torch",
            ["Loader", "Local", "Normalize", "SampleDataset", "Skip", "Unnormalize"],
        ),
    ],
)
def test_further_names_are_in_their_own_modules_alone(module, names):
    if module in ("roboreel.torch", "roboreel.lerobot"):
        pytest.importorskip("torch")
    home = importlib.import_module(module)
    for name in names:
        assert name in home.__all__
        assert getattr(home, name).__doc__
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(roboreel, name)


def test_what_is_not_there_says_so():
    with pytest.raises(AttributeError, match="has no attribute 'LeRobotDataset'"):
        roboreel.LeRobotDataset  # noqa: B018


def test_opening_imports_no_framework_and_no_network(tmp_path):
    code = (
        "import sys, roboreel; roboreel.open_dataset; "
        "print([m for m in ('torch', 'datasets', 'pandas', 'rerun', 'huggingface_hub', 'typer') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
