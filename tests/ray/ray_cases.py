"""What must hold on a Ray cluster of two nodes: run by tests/ray/test_ray.py in a network of its own.

``python -m tests.ray.ray_cases FOLDER CASE …`` starts one cluster for all cases and prints what failed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

import roboreel as reel
from roboreel.commit import undo_change
from roboreel.edit.edit_job import plan_edit_job
from roboreel.errors import FolderTakenError
from roboreel.jobs import InProcess, create_job, open_job, run_job
from roboreel.ray import RayCluster, read, train_loader, write
from tests.clean import CAMERAS, VERSIONS, clean_dataset
from tests.commit.test_undo import tree_hash
from tests.edit.test_edit_jobs import EDITS, published, sources
from tests.importing.test_import_jobs import KINDS, import_plan
from tests.jobs.job_operations import squares
from tests.jobs.test_job_results import plans
from tests.jobs.test_jobs import tree


def same_bytes(cluster, folder):
    """Every operation leaves the bytes that it leaves in this process."""
    root = clean_dataset(folder / "arm")
    for name, plan in plans(root, folder / "out").items():
        seen = []
        for where, on in (("here", InProcess()), ("ray", RayCluster())):
            job = create_job(folder / f"{name}-{where}", plan)
            assert run_job(job, on).failed == ()
            parts = tree(job.path / "parts")
            seen.append((parts, json.dumps(job.commit())))
        assert seen[0] == seen[1], name


def same_edits(cluster, folder):
    """Every edit that is a job leaves the bytes that it leaves in this process."""
    old, out = sources(folder), folder / "out"
    for place, (name, make) in enumerate(EDITS.items()):
        planned = plan_edit_job(make(old, out), verify=True, task_s=1e-2)
        seen = []
        for where, on in (("here", InProcess()), ("ray", RayCluster())):
            job = create_job(folder / f"{place}-{where}", planned)
            assert run_job(job, on).failed == ()
            seen.append(published(job, out))
        assert seen[0] == seen[1], name


def same_imports(cluster, folder):
    """An import of several recordings leaves the bytes that it leaves in this process."""
    for kind in KINDS:
        out = folder / "out"
        plan = import_plan(kind, folder / kind, out)
        seen = []
        for where, on in (("here", InProcess()), ("ray", RayCluster())):
            job = create_job(folder / f"{kind}-{where}", plan)
            assert run_job(job, on).failed == ()
            seen.append(published(job, out))
        assert seen[0] == seen[1], kind


def edits_in_place(cluster, folder):
    """An edit in place runs on the cluster, from the call that everybody uses, and is undone."""
    root = clean_dataset(folder / "arm")
    before = tree_hash(root)
    edit = reel.edit_dataset(root).delete([1]).resize(CAMERAS[0], 24, 32)
    edit.apply(on=RayCluster(), job=folder / "job")
    assert len(reel.open_dataset(root).episodes) == 5
    undo_change(root)
    assert tree_hash(root) == before


def full_disk(cluster, folder):
    """A node whose disk is full fails its tasks; others do the rest, and the job is resumed."""
    # The other nodes wait for it: on a busy machine they would do all tasks before it has one.
    plan = squares(12, sleep_s=0.2, bytes=65_536, full_seen=str(folder / "full"))
    job = create_job(folder / "job", plan)
    node = _node_with_full_disk(cluster, job.path / "staging")
    try:
        report = run_job(job, RayCluster(), retries=0)
    finally:
        node.terminate()
        node.wait()
    assert 0 < len(report.failed) < 12, report
    assert all("No space left" in one.error for one in report.failed), report.failed
    assert job.status().done == 12 - len(report.failed)
    assert run_job(job, RayCluster()).ran == len(report.failed)
    assert list((job.path / "staging").iterdir()) == []
    here = create_job(folder / "here", plan)
    run_job(here, InProcess())
    assert tree(job.path / "parts") == tree(here.path / "parts")
    assert job.commit()["count"] == 12


def _node_with_full_disk(cluster, staging):
    """Start a node that sees a file system of 32 kB where tasks write."""
    staging.mkdir()
    mount = f"mount --make-rprivate / && mount -t tmpfs -o size=32k full {staging}"
    starts = "from ray.scripts.scripts import main; main()"
    start = ["start", "--address", cluster.address, "--num-cpus", "1", "--block"]
    command = f'{mount} && exec "$0" -c "$1" {" ".join(start)} --object-store-memory 80000000'
    before = len(_alive())
    node = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", command, sys.executable, starts], stdout=subprocess.DEVNULL
    )
    while len(_alive()) == before:
        assert node.poll() is None, "the node did not start"
        time.sleep(0.1)
    return node


def _alive():
    return [one for one in ray.nodes() if one["Alive"]]


def same_task_twice(cluster, folder):
    """Two drivers that run one job at once leave one part for each task."""
    job = create_job(folder / "job", squares(12, sleep_s=0.1))
    code = DRIVER.format(path=str(job.path), address=cluster.address)
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    assert run_job(open_job(job.path), RayCluster()).failed == ()
    assert other.wait() == 0
    assert list((job.path / "staging").iterdir()) == []
    assert job.commit() == {"sum": 506, "count": 12}


def straggler(cluster, folder):
    """A task that takes long keeps nobody else from working."""
    log = folder / "log"
    waits = {"numbers": [0], "others": 6}
    job = create_job(folder / "job", squares(10, log=str(log), waits=waits))
    done = []
    run_job(job, RayCluster(), on_progress=lambda now: done.append(now.done))
    assert done == list(range(1, 11))
    assert log.read_text().split().index("0") >= 6
    assert job.commit()["count"] == 10


def reads_samples(cluster, folder):
    """Rows are the samples of the dataset, with windows, for each version; views choose episodes."""
    for version in VERSIONS:
        dataset = reel.open_dataset(clean_dataset(folder / version, version)).select([0, 2, 3])
        asked: Any = {"features": ["observation.state", CAMERAS[0], "task"], "image_size": (24, 32)}
        rows = read(dataset, {"action": range(3)}, **asked, num_blocks=3)
        assert rows.count() == len(dataset)
        whole = dataset.read(np.arange(len(dataset)), windows={"action": range(3)}, **asked)
        for place, row in enumerate(rows.take_all()):
            assert row.keys() == whole.keys()
            for name, values in whole.items():
                assert np.array_equal(row[name], values[place]), (version, name, place)


def writes_datasets(cluster, folder):
    """Frames that went through Ray Data become a dataset of the same values, in order."""
    dataset = reel.open_dataset(clean_dataset(folder / "arm", store="image"))
    rows = read(dataset, num_blocks=3).random_shuffle(seed=1)
    target = write(rows, folder / "new", fps=dataset.fps, store="image")
    again = reel.open_dataset(target)
    assert again.episodes.lengths.tolist() == dataset.episodes.lengths.tolist()
    everything = np.arange(len(dataset))
    names = [name for name in dataset.features if name in again.features]
    assert set(CAMERAS) < set(names)
    old, new = dataset.read(everything, names), again.read(everything, names)
    for name in names:
        if name != "task_index":
            assert np.array_equal(old[name], new[name]), name
    assert list(dataset.read(everything, ["task"])["task"]) == list(
        again.read(everything, ["task"])["task"]
    )
    try:
        write(rows, target, fps=30)
    except FolderTakenError:
        return
    raise AssertionError("a dataset was replaced")


def failed_write_leaves_nothing(cluster, folder):
    """Where the pipeline fails, there is no dataset and no rest of one."""

    def fail(batch):
        if (batch["episode_index"] > 2).any():
            raise ValueError("on purpose")
        return batch

    dataset = reel.open_dataset(clean_dataset(folder / "arm"))
    rows = read(dataset, features=["action", "episode_index", "frame_index"], num_blocks=3)
    before = sorted(folder.iterdir())
    try:
        write(rows.map_batches(fail), folder / "new", fps=30)
    except Exception:  # noqa: BLE001  # Ray's own
        assert sorted(folder.iterdir()) == before
        return
    raise AssertionError("it did not fail")


def failing_task(cluster, folder):
    """A failing task is listed; the rest goes on."""
    job = create_job(folder / "job", squares(8, fails=[3]))
    report = run_job(job, RayCluster(), retries=1)
    assert [(one.number, one.attempts) for one in report.failed] == [(3, 2)]
    assert job.status().done == 7


def killed_node(cluster, folder):
    """A node that is killed in the middle costs its own tasks, which run elsewhere."""
    doomed = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    log = folder / "log"
    job = create_job(folder / "job", squares(24, sleep_s=0.4, log=str(log)))

    def kill():
        while not log.exists() or len(log.read_text().split()) < 6:
            time.sleep(0.02)
        cluster.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    report = run_job(job, RayCluster())
    killer.join()
    assert report.failed == ()
    assert job.commit()["count"] == 24


DRIVER = """
import ray
from roboreel.jobs import open_job, run_job
from roboreel.ray import RayCluster
run_job(open_job({path!r}), RayCluster({address!r}))
"""


def killed_driver(cluster, folder):
    """A driver that is killed is followed by another, which does the rest."""
    log = folder / "log"
    job = create_job(folder / "job", squares(16, sleep_s=0.3, log=str(log)))
    code = DRIVER.format(path=str(job.path), address=cluster.address)
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    while not log.exists() or len(log.read_text().split()) < 4:
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    report = run_job(open_job(job.path), RayCluster())
    assert report.failed == ()
    assert report.skipped > 0
    assert job.commit()["count"] == 16


def _train(config):
    loader = train_loader(reel.open_dataset(config["path"]), 4, shuffle=True, seed=5)
    rank = ray.train.get_context().get_world_rank()
    seen: list[Any] = []
    state: Any = None
    for step, batch in enumerate(loader):
        seen.append(batch["index"].tolist())
        if step == 2:
            state = loader.state_dict()
    resumed = train_loader(reel.open_dataset(config["path"]), 4, shuffle=True, seed=5)
    resumed.load_state_dict(state)
    rest = [batch["index"].tolist() for batch in resumed]
    Path(config["out"], f"{rank}.json").write_text(json.dumps([seen, rest]))


def trains(cluster, folder):
    """Each worker of Ray Train reads its own share, and resumes exactly."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    root = clean_dataset(folder / "arm")
    out = folder / "out"
    out.mkdir()
    TorchTrainer(
        _train,
        train_loop_config={"path": str(root), "out": str(out)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(folder / "runs")),
    ).fit()
    shares = []
    for rank in range(2):
        seen, rest = json.loads((out / f"{rank}.json").read_text())
        assert seen[3:] == rest
        shares.append({row for batch in seen for row in batch})
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0]) == len(shares[1]) == 48


def _carry_out(cluster, folder, name):
    folder.mkdir()
    try:
        globals()[name](cluster, folder)
    except BaseException:  # noqa: BLE001  # told to the test
        return traceback.format_exc()
    return ""


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    # Workers at the priority of the tests, or other work on the machine starves them.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  # so Ray spells it
    small = {"object_store_memory": 100 * 1024**2}
    head = {"num_cpus": 0, "include_dashboard": False, **small}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1, **small)
    ray.init(address=cluster.address, log_to_driver=False)
    results = {name: _carry_out(cluster, folder / name, name) for name in names}
    ray.shutdown()
    cluster.shutdown()
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
