"""A pytest plugin for LeRobot's own tests: the drop-in takes the place of its dataset classes.

It runs in LeRobot's environment, on a checkout of LeRobot's repository. The classes are replaced in
the modules of the tests, as in the code of somebody who changes the import; LeRobot keeps its own.
Tests in ``listed.toml`` must fail, for the reason that stands there.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomllib

from benchmarks.peers.lerobot import declare_missing_operator

declare_missing_operator()

import roboreel.lerobot as ours

if TYPE_CHECKING:
    from collections.abc import Generator

LISTED = tomllib.loads(Path(__file__).with_name("listed.toml").read_text())
opened: list[str] = []
"""Classes of the drop-in that the running test has used."""
counts = {"passed": 0, "listed": 0, "failed": 0}
"""What became of the tests that opened a dataset."""


def module_with(name: str) -> Any:
    """Return the module of LeRobot that has a class; they moved between versions."""
    for place in ("dataset_metadata", "lerobot_dataset", "multi_dataset", "streaming_dataset"):
        try:
            module = import_module(f"lerobot.datasets.{place}")
        except ModuleNotFoundError:
            continue
        if getattr(getattr(module, name, None), "__module__", None) == module.__name__:
            return module
    raise LookupError(f"LeRobot {version('lerobot')} has no {name}.")


def download(name: str, repo_id: str, root: Any, part: str) -> None:
    """Make a folder as LeRobot would have: the drop-in reads what is on this machine.

    The tests put a function that writes files in the place of ``snapshot_download``.
    """
    if root is not None and not (Path(root) / part).is_dir():
        patterns = "meta/" if part == "meta" else None
        module_with(name).snapshot_download(repo_id, local_dir=root, allow_patterns=patterns)


class LeRobotDataset(ours.LeRobotDataset):
    """The drop-in, after the download that tests expect."""

    def __init__(self, repo_id: str, root: Any = None, *args: Any, **kwargs: Any) -> None:
        opened.append("LeRobotDataset")
        download("LeRobotDataset", repo_id, root, "data")
        super().__init__(repo_id, root, *args, **kwargs)


class LeRobotDatasetMetadata(ours.LeRobotDatasetMetadata):
    """The drop-in, after the download that tests expect."""

    def __init__(self, repo_id: str, root: Any = None, *args: Any, **kwargs: Any) -> None:
        opened.append("LeRobotDatasetMetadata")
        download("LeRobotDatasetMetadata", repo_id, root, "meta")
        super().__init__(repo_id, root, *args, **kwargs)


class MultiLeRobotDataset(ours.MultiLeRobotDataset):
    """The drop-in; notes that it was used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        opened.append("MultiLeRobotDataset")
        super().__init__(*args, **kwargs)


class StreamingLeRobotDataset(ours.StreamingLeRobotDataset):
    """The drop-in; notes that it was used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        opened.append("StreamingLeRobotDataset")
        super().__init__(*args, **kwargs)


REPLACED = {
    getattr(module_with(mine.__name__), mine.__name__): mine
    for mine in (
        LeRobotDataset,
        LeRobotDatasetMetadata,
        MultiLeRobotDataset,
        StreamingLeRobotDataset,
    )
}
"""The drop-in's class for each of LeRobot's."""


def replace_classes(module: Any) -> None:
    """Put the drop-in's classes in the place of LeRobot's."""
    found = {
        name: REPLACED[value]
        for name, value in vars(module).items()
        if isinstance(value, type) and value in REPLACED
    }
    vars(module).update(found)


def reason_for(name: str, table: str) -> str | None:
    """Return why a test stands in a table of ``listed.toml``; None if it does not."""
    rules = {**LISTED[table], **LISTED.get(version("lerobot"), {}).get(table, {})}
    return next((why for rule, why in rules.items() if fnmatch(name, rule)), None)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the files of tests that open no dataset."""
    if not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text()
    return collection_path.name in LISTED["files"] or not (
        "LeRobotDataset" in text or "dataset_factory" in text
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Replace the classes in the tests, and in what opens datasets for them."""
    helpers = [module for name, module in sys.modules.items() if name.startswith("tests.")]
    tests = {item.module for item in items if isinstance(item, pytest.Function)}
    for module in (*helpers, *tests, import_module("lerobot.datasets.factory")):
        replace_classes(module)
    for item in items:
        name = item.nodeid.removeprefix("tests/datasets/")
        if reason := reason_for(name, "skipped"):
            item.add_marker(pytest.mark.skip(reason=reason))
        elif reason := reason_for(name, "listed"):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count the tests that open a dataset."""
    report = yield
    if call.when == "setup":
        opened.clear()
    if call.when == "call" and opened:
        listed = hasattr(report, "wasxfail")
        counts["listed" if listed else "passed" if report.passed else "failed"] += 1
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what became of the tests that opened a dataset."""
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    terminalreporter.write_line(f"tests that open a dataset: {said}")
