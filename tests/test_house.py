"""The limits and the map that keep the source easy to read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import roboreel
from tests import PROJECT

SOURCE = Path(roboreel.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

MOST_LINES = 600
MOST_PARAMETERS = 9
# Constructors with the parameters of LeRobot's own.
MIRRORS = {
    "lerobot/dataset.py: __init__",
    "lerobot/dataset.py: create",
    "lerobot/dataset.py: resume",
    "lerobot/metadata.py: create",
    "lerobot/streaming.py: __init__",
}

# Statements of each room, docstrings and imports not counted; "." is what lies outside of rooms.
MOST_STATEMENTS = {
    ".": 1050,
    "check": 2740,
    "cli": 1050,
    "commit": 650,
    "dataset": 2100,
    "demo_arm": 340,
    "edit": 1920,
    "format": 1760,
    "frames": 1070,
    "huggingface": 230,
    "importing": 4450,
    "io": 730,
    "jobs": 670,
    "lerobot": 900,
    "loading": 1010,
    "mirror": 1180,
    "order": 290,
    "parquet": 2280,
    "ray": 170,
    "record": 1290,
    "remote": 540,
    "repair": 1250,
    "replay": 760,
    "report": 280,
    "rerun": 360,
    "schema": 200,
    "shards": 2040,
    "stats": 420,
    "torch": 100,
    "video": 2330,
}
MOST_STATEMENTS_OF_ALL = 34_030
RAISED = "only a capability may raise this, and the commit says for what"


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    return [name for name in names if name not in ("self", "cls")]


def functions(path: Path) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    place = path.relative_to(SOURCE).as_posix()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(f"{place}: {node.name}", node) for node in nodes if isinstance(node, kinds)]


def is_counted(node: ast.AST) -> bool:
    if not isinstance(node, ast.stmt) or isinstance(node, (ast.Import, ast.ImportFrom)):
        return False
    value = node.value if isinstance(node, ast.Expr) else None
    return not (isinstance(value, ast.Constant) and isinstance(value.value, str))


def statements() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in FILES:
        room = path.relative_to(SOURCE).parent.parts[:1] or (".",)
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        found[room[0]] += sum(map(is_counted, nodes))
    return found


def blocks() -> list[str]:
    return (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1::2]


def map_lines() -> list[str]:
    return blocks()[0].splitlines()


def test_no_file_is_too_long_to_read():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert [path for path, length in lengths.items() if length > MOST_LINES] == []


def test_no_room_grows():
    found = statements()
    above = {room: n for room, n in found.items() if n > MOST_STATEMENTS.get(room, 0)}
    assert above == {}, RAISED
    assert found.total() <= MOST_STATEMENTS_OF_ALL, RAISED
    assert set(MOST_STATEMENTS) == set(found), "a room that is gone keeps no budget"


def test_no_function_has_ten_parameters_but_what_mirrors_lerobot():
    many = {
        place
        for path in FILES
        for place, function in functions(path)
        if len(parameters(function)) > MOST_PARAMETERS
    }
    assert many == MIRRORS


def test_every_module_opens_with_one_line_that_says_what_it_is():
    silent = []
    for path in FILES:
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if not said or not said.splitlines()[0].endswith("."):
            silent.append(path)
    assert silent == []


@pytest.mark.skipif(not (PROJECT / "ARCHITECTURE.md").exists(), reason="not a checkout")
class TestTheMap:
    def test_every_room_and_every_module_at_the_top_is_on_it(self):
        text = "\n".join(map_lines())
        rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
        modules = {path.name for path in SOURCE.glob("*.py")} - {"__main__.py"}
        assert [room for room in sorted(rooms) if f"─ {room}/" not in text] == []
        assert [module for module in sorted(modules) if module not in text] == []

    def test_every_module_on_it_exists(self):
        names = {name for line in map_lines() for name in re.findall(r"\w+\.py\b", line)}
        there = {path.name for path in FILES}
        assert sorted(names - there) == []

    def test_its_layers_are_those_that_lint_imports_checks(self):
        settings = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
        held = settings.split("layers = [")[1].split("]")[0]
        names = [re.findall(r"\w+", layer) for layer in re.findall(r'"(.*?)"', held)]
        assert [re.findall(r"\w+", line) for line in blocks()[1].splitlines() if line] == names
