"""Text from files reaches people without control characters."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roboreel.jobs import create_job
from roboreel.text import readable
from tests.factory import edit_info, write_dataset
from tests.jobs.job_operations import squares

EVIL = "\x1b]0;owned\x07\x9b2J\u202e\n::error::fake"


def test_control_characters_are_spelled_out_and_others_stay():
    assert readable("a\x1b[2J\x9bb") == "a\\x1b[2J\\x9bb"
    assert readable("line\nbreak\u202e") == "line\\nbreak\\u202e"
    assert readable("Würfel 拾う") == "Würfel 拾う"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("evil")
    write_dataset(root, [3, 4])
    info = json.loads((root / "meta/info.json").read_text())
    features = info["features"] | {EVIL: {"dtype": EVIL, "shape": [1]}}
    features["action"]["names"] = [EVIL, EVIL]
    edit_info(root, robot_type=EVIL, features=features)
    table = pa.table({"task_index": [0, 1], "task": [EVIL, EVIL]})
    pq.write_table(table, root / "meta/tasks.parquet")
    return root


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """Return a folder with a recording, a recipe, a job and a mirror, all with evil texts."""
    more = tmp_path_factory.mktemp("more")
    operation = {"do": "set_task", "episodes": [0], "task": EVIL}
    (more / "recipe.json").write_text(json.dumps({"operations": [operation]}))
    (more / "table").mkdir()
    name = EVIL.replace('"', "")
    table = f'time,"{name}_0","{name}_1"\n0,1,2\n0.1,2,3\n0.2,3,4\n'
    (more / "table" / "rows.csv").write_text(table)
    job = create_job(more / "jobs" / "evil", squares(), name=EVIL)
    failure = {"task": 0, "error": EVIL, "attempts": 3}
    (job.path / "failed").mkdir()
    (job.path / "failed" / "a.json").write_text(json.dumps(failure))
    (more / "mirrors" / "evil").mkdir(parents=True)
    (more / "mirrors" / "evil" / "mirror.json").write_text(json.dumps({"url": EVIL}))
    return more


COMMANDS = [
    "info DATA --episodes",
    "info DATA --json",
    "stats DATA",
    "check DATA",
    "check DATA --format github",
    "check DATA --format json",
    "check DATA --format sarif",
    "repair DATA --dry-run",
    "history DATA",
    "report DATA --out OUT/report.html",
    "export DATA --out OUT/recordings",
    "edit delete DATA 0 --dry-run",
    "edit task DATA other --dry-run",
    "merge DATA DATA --out OUT/merged --dry-run",
    "convert DATA --to 2.1 --out OUT/converted --dry-run",
    "split DATA a=0.5 b=0.5 --out OUT/split --dry-run",
    "cache build DATA --out OUT/cache",
    "recover DATA",
    "compact DATA",
    "prefetch DATA",
    "edit apply DATA --recipe MORE/recipe.json --dry-run",
    "import MORE/table --out OUT/imported --dry-run",
    "import MORE/table --out OUT/imported --dry-run --json",
    "import MORE/nothing --out OUT/imported",
    "job list --home MORE/jobs",
    "job status MORE/jobs/evil",
    "job status MORE/jobs/evil --json",
    "mirror list --home MORE/mirrors",
    "mirror prune --home MORE/mirrors --keep-bytes 0 --dry-run",
]
MARK = "=== the next command ==="
# One process for all: its start takes longer than a command.
RUN = """
import json, sys
from roboreel.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["roboreel", *arguments]
    try:
        main()
    except SystemExit:
        pass
    print(sys.stdin.readline(), flush=True)
"""


def fill(word: str, places: dict[str, str]) -> str:
    first, *rest = word.split("/")
    return "/".join([places.get(first, first), *rest])


@pytest.fixture(scope="module")
def printed(root, more, tmp_path_factory):
    """Return what each command prints on both streams."""
    places = {"DATA": str(root), "MORE": str(more), "OUT": str(tmp_path_factory.mktemp("out"))}
    words = [command.split() for command in COMMANDS]
    calls = json.dumps([[fill(word, places) for word in several] for several in words])
    ran = subprocess.run(
        [sys.executable, "-u", "-c", RUN, calls],
        input=f"{MARK}\n".encode() * len(COMMANDS),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        timeout=600,
    )
    *texts, rest = ran.stdout.decode().split(MARK)
    assert (len(texts), rest.strip()) == (len(COMMANDS), "")
    return texts


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=COMMANDS.__getitem__)
def test_no_command_prints_a_control_character(number, printed):
    text = printed[number].strip()
    assert text
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    assert "\n::error::fake" not in text
