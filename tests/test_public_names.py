"""The public names: adding one is a decision."""

import subprocess
import sys

import pytest

import roboreel

PUBLIC = {
    "Dataset",
    "DatasetError",
    "Depth",
    "Episode",
    "Feature",
    "Mixture",
    "Window",
    "__version__",
    "open_dataset",
}


def test_the_public_names_are_these():
    assert set(roboreel.__all__) == PUBLIC
    assert set(dir(roboreel)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name):
    value = getattr(roboreel, name)
    assert name == "__version__" or value.__doc__


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
