"""The benchmarks run, and the harness measures what it says."""

import json
import platform
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.discover import benchmarks
from benchmarks.harness import AGAINST, OURS, Case, measure, with_checkout
from benchmarks.meter import Meter, Step, folder_bytes
from benchmarks.origin import Origin
from benchmarks.peers import peers_python
from benchmarks.peers.robovet import robovet_python
from benchmarks.process import CaseError, Measurement, peak_bytes, run_case
from benchmarks.report import write
from benchmarks.results import DEFAULT_PLOTS, Row, groups, ratio
from roboreel.io.budget import process_budget
from tests.project.benchmark_cases import MODULE

EXTRAS = {"epoch": "torch", "loader": "torch", "export": "rerun", "import": "mcap"}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is Linux's to tell")


@pytest.fixture
def in_this_process(monkeypatch, tmp_path):
    """Run cases here: starting Python and importing torch for each takes longer than they do."""

    def run_here(_python, module, function, arguments, *, home, watch=(), **_):
        home.mkdir(parents=True, exist_ok=True)
        meter = Meter([home, *watch])
        case = getattr(import_module(module), function)
        case(meter, **json.loads(json.dumps(arguments)))
        peaks = tuple(peak_bytes(step, []) for step in meter.steps)
        return Measurement(tuple(meter.steps), peaks, meter.notes)

    monkeypatch.setattr("benchmarks.harness.run_case", run_here)
    # Collecting the garbage of all tests, before every step, takes longer than the steps.
    monkeypatch.setattr("benchmarks.meter.gc", SimpleNamespace(collect=lambda: 0))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    limit_bytes = process_budget().limit_bytes
    yield
    process_budget().limit_bytes = limit_bytes


def check_benchmark(benchmark, out):
    pytest.importorskip("matplotlib")
    pytest.importorskip(EXTRAS.get(benchmark.name, "numpy"))
    rows = benchmark.run(quick=True, peers=None, out=out)
    assert OURS in {row.contender for row in rows}
    written = json.loads((out / f"{benchmark.name}.json").read_text(encoding="utf-8"))
    assert len(written["rows"]) == len(rows)
    assert (out / f"{benchmark.name}.png").stat().st_size > 1000


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process")
# Datasets of other tests may still be open in this process, whose budget a benchmark lowers.
@pytest.mark.filterwarnings("ignore:The memory budget is")
@pytest.mark.parametrize(
    "benchmark",
    # The ceiling replaces the decoder of its process.
    [found for found in benchmarks() if found.name != "ceiling"],
    ids=lambda benchmark: benchmark.name,
)
def test_every_benchmark_runs_without_peers(benchmark, tmp_path):
    check_benchmark(benchmark, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "benchmark",
    [
        pytest.param(
            found,
            marks=[] if found.name in ("open", "ceiling") else pytest.mark.slow,
            id=found.name,
        )
        for found in benchmarks()
    ],
)
def test_every_benchmark_runs_with_a_process_for_each_case(benchmark, tmp_path):
    check_benchmark(benchmark, tmp_path)


def test_results_name_neither_machine_nor_folders(tmp_path):
    pytest.importorskip("matplotlib")
    case = Case("spend", OURS, MODULE, "spend", watch=(tmp_path,))
    rows = measure([case], rounds=1, homes=tmp_path / "homes")
    write("spend", "Spending", rows, DEFAULT_PLOTS, tmp_path, Origin.now())
    text = (tmp_path / "spend.json").read_text(encoding="utf-8")
    for secret in (platform.node(), str(Path.home()), str(tmp_path), sys.prefix):
        assert secret not in text


def test_a_result_tells_the_commit_and_what_others_took(tmp_path):
    pytest.importorskip("matplotlib")
    case = Case("spend", OURS, MODULE, "spend")
    rows = measure([case], rounds=1, homes=tmp_path / "homes")
    write("spend", "Spending", rows, DEFAULT_PLOTS, tmp_path, Origin("0123abc", None))
    result = json.loads((tmp_path / "spend.json").read_text(encoding="utf-8"))
    assert result["code"] == "0123abc"
    assert "stolen_share" not in result["machine"]  # Nobody looked when it began.


@pytest.mark.interop
@pytest.mark.parametrize("benchmark", benchmarks(), ids=lambda benchmark: benchmark.name)
def test_every_benchmark_runs_beside_its_peers(benchmark, tmp_path):
    if benchmark.name == "check" and robovet_python() is None:
        pytest.skip("robovet is not here: benchmarks/README.md says how to install it")
    rows = benchmark.run(quick=True, peers=peers_python(), out=tmp_path)
    assert {row.contender for row in rows} > {OURS}
    for group in groups(rows).values():  # who did the same found the same
        assert len({row.notes.get("frames") for row in group}) == 1
        sums = [row.notes["checksum"] for row in group if "checksum" in row.notes]
        assert sums == pytest.approx(sums[:1] * len(sums))


@LINUX
def test_the_peak_of_a_step_counts_memory_that_is_gone_at_its_end(tmp_path, monkeypatch):
    # On a busy machine a sample may take a tenth of a second: it would not be followed by another.
    monkeypatch.setattr("benchmarks.process._IDLE_SHARE", 1)
    run = run_case(sys.executable, MODULE, "spend", {"megabytes": 200}, home=tmp_path)
    idle, work = run.peaks
    assert idle is not None
    assert work is not None
    assert idle < 20e6
    assert 150e6 < work < 300e6
    held = run.steps[1].memory_after
    assert held is not None
    assert held < work
    assert run.notes == {"answer": 42}


def test_growth_of_the_home_and_of_watched_folders_is_seen(tmp_path):
    dataset = tmp_path / "dataset"
    dataset.mkdir()
    run = run_case(
        sys.executable,
        MODULE,
        "spend",
        {"file": str(dataset / "litter")},
        home=tmp_path / "home",
        watch=[dataset],
    )
    assert [step.disk_bytes for step in run.steps] == [0, 1000]


def test_a_case_that_fails_says_why(tmp_path):
    with pytest.raises(CaseError, match="the arm fell off"):
        run_case(sys.executable, MODULE, "fail", {}, home=tmp_path)


def test_cases_of_one_home_share_a_cache_that_is_new_every_round(tmp_path):
    first = Case("first", OURS, MODULE, "cache_once", home="shared")
    rows = measure([first, replace(first, scenario="again")], rounds=2, homes=tmp_path)
    assert [(row.scenario, row.disk_bytes) for row in rows] == [("first", 5000), ("again", 0)]


def test_another_checkout_runs_its_own_package_and_cases(tmp_path):
    package, cases = tmp_path / "src" / "roboreel", tmp_path / "benchmarks"
    for folder in (package, cases):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("AGE = 7.0\n")
    for name in ("__init__.py", "worker.py", "meter.py", "memory.py"):
        (cases / name).write_bytes(Path("benchmarks", name).read_bytes())
    (cases / "aged.py").write_text(
        "import roboreel\n\ndef age(meter):\n    with meter.step('age'):\n"
        "        meter.note(age=roboreel.AGE)\n"
    )
    mine = Case("age", OURS, MODULE, "spend")
    peer = Case("age", "a peer", MODULE, "spend")
    both = with_checkout([mine, peer], tmp_path)
    assert [case.contender for case in both] == [OURS, AGAINST, "a peer"]
    theirs = replace(both[1], module="benchmarks.aged", function="age")
    [row] = measure([theirs], rounds=1, homes=tmp_path / "homes")
    assert row.notes == {"age": 7.0}


def test_samples_outside_a_step_do_not_count():
    step = Step("read", 1, 10.0, 11.0, 0.5, memory_before=100, memory_after=150, disk_bytes=0)
    assert peak_bytes(step, [(9.9, 900), (10.5, 400), (11.1, 900)]) == 300
    assert peak_bytes(step, []) == 50
    assert peak_bytes(replace(step, memory_before=None), [(10.5, 400)]) is None


def test_the_ratio_compares_the_cost_of_one_thing():
    ours = Row("s", "read", OURS, 1000, 1.0, 1.0, 0, 0, 0)
    peer = replace(ours, contender="peer", count=10, cpu_s=1.0)
    assert ratio(peer, [ours, peer]) == pytest.approx(100)
    assert ratio(ours, [ours, peer]) == 1
    assert ratio(peer, [peer]) is None


def test_a_folder_is_as_large_as_its_files(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/one").write_bytes(bytes(10))
    (tmp_path / "a/b/two").write_bytes(bytes(5))
    assert folder_bytes(tmp_path) == 15
    assert folder_bytes(tmp_path / "absent") == 0


def test_a_peers_environment_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ROBOREEL_PEERS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="ROBOREEL_PEERS"):
        peers_python()
