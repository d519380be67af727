"""The code of README and the docs runs as written, in order, each page in an empty folder.

A block that cannot run here has the line ``<!-- not run: why -->`` above it. A line such as
``print(x)  # 3`` promises its output.
"""

import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import pytest

from tests import PROJECT

PAGES = [
    PROJECT / "README.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    PROJECT / "benchmarks" / "README.md",
]
# What a page needs beside the core, by what its code imports or calls.
EXTRAS = {
    "roboreel.torch": "torch",
    "roboreel.lerobot": "torch",
    "roboreel.huggingface": "datasets",
    "roboreel.rerun": "rerun",
    "roboreel export": "rerun",
    "roboreel prefetch": "obstore",
    "benchmarks": "matplotlib",
    "import h5py": "h5py",
}
# Runs the blocks of a page: Python in one namespace, shell commands in between.
DRIVER = """
import contextlib, io, json, subprocess, sys

names = {"__name__": "page"}  # not "__main__": a script that is shown is not started
for block in json.loads(sys.stdin.read()):
    if block["language"] == "sh":
        subprocess.run(["bash", "-euo", "pipefail", "-c", block["code"]], check=True)
        continue
    said = io.StringIO()
    source = "\\n" * block["line"] + block["code"]
    with contextlib.redirect_stdout(said):
        exec(compile(source, block["page"], "exec"), names)
    if block["promised"] and said.getvalue().splitlines() != block["promised"]:
        place = f"{block['page']}:{block['line']}"
        sys.exit(f"{place} promises\\n{block['promised']}, but prints\\n{said.getvalue()}")
"""


@dataclass(frozen=True)
class Block:
    """The code between two fences of a page."""

    page: str
    line: int
    language: str
    code: str
    not_run: str | None

    @property
    def promised(self):
        """What its print calls say that they print."""
        return re.findall(r"^print\(.*\)  # (.+)$", self.code, re.MULTILINE)


def blocks_of(page):
    name = page.relative_to(PROJECT).as_posix()
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    for start, stop in zip(fences[::2], fences[1::2], strict=True):
        above = lines[start - 1] if start else ""
        excuse = re.fullmatch(r"<!-- not run: (.+) -->", above)
        code = "\n".join(lines[start + 1 : stop]) + "\n"
        yield Block(name, start + 1, lines[start][3:], code, excuse[1] if excuse else None)


BLOCKS = {page: list(blocks_of(page)) for page in PAGES}
RUN = {
    page: [block for block in blocks if block.language in ("python", "sh") and not block.not_run]
    for page, blocks in BLOCKS.items()
}


def programs(folder):
    """Put `roboreel` and `python` of this environment into a folder."""
    folder.mkdir()
    for name, arguments in {"python": "", "python3": "", "roboreel": "-m roboreel"}.items():
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="the pages speak to bash")
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if RUN[page]],
    ids=lambda p: p.relative_to(PROJECT).with_suffix("").as_posix(),
)
def test_the_code_of_a_page_runs(page, tmp_path):
    text = "".join(block.code for block in RUN[page])
    for sign, package in EXTRAS.items():
        if sign in text and find_spec(package) is None:
            pytest.skip(f"{page.name} needs {package}")
    folder = tmp_path / "clone"
    folder.mkdir()
    for part in ("examples", "benchmarks"):
        (folder / part).symlink_to(PROJECT / part)
    paths = [str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([{**asdict(block), "promised": block.promised} for block in RUN[page]]),
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PATH": os.pathsep.join([str(programs(tmp_path / "bin")), os.environ["PATH"]]),
            "HF_HOME": str(tmp_path / "hub"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def test_what_is_not_run_is_code_and_has_a_reason():
    skipped = [block for blocks in BLOCKS.values() for block in blocks if block.not_run]
    assert all(block.language in ("python", "sh") for block in skipped)
    marks = sum(page.read_text(encoding="utf-8").count("<!-- not run") for page in PAGES)
    assert marks == len(skipped), "a mark stands right above its block"


def test_every_block_names_its_language():
    for blocks in BLOCKS.values():
        for block in blocks:
            assert block.language in ("python", "sh", "text", "json"), f"{block.page}:{block.line}"


ALL_PAGES = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md"), *PAGES[-1:]]


def anchors(page):
    """The names that headings of a page have in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in ALL_PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if "://" in link or link.startswith("mailto:"):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


def test_no_page_has_a_gap_that_was_to_be_filled():
    gaps = re.compile(r"\b(TODO|FIXME|TBD|XXX|TABLE|BEFORE|AFTER|FIGURES?)\b")
    found = {page.name: gaps.findall(page.read_text(encoding="utf-8")) for page in ALL_PAGES}
    assert {name: words for name, words in found.items() if words} == {}


def test_modules_that_design_notes_name_exist():
    source = PROJECT / "src" / "roboreel"
    for note in (PROJECT / "docs" / "design").glob("*.md"):
        named = re.findall(r"`([a-z_0-9/]+(?:/|\.py))`", note.read_text(encoding="utf-8"))
        assert [name for name in named if not (source / name).exists()] == [], note.name
