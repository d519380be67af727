"""Statistics, checks and training caches as jobs: the same bytes wherever their tasks run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import roboreel as reel
from roboreel.check import check_dataset
from roboreel.check.check_job import findings_of, from_plain, plan_check, to_plain
from roboreel.dataset.cache import Jpeg, Raw
from roboreel.dataset.cache.build_job import plan_build
from roboreel.dataset.cache.home import verify_cache
from roboreel.dataset.statistics_job import plan_statistics, stats_of
from roboreel.errors import DatasetError, FeatureNotFoundError, JobError
from roboreel.jobs import InProcess, Processes, create_job, execute, open_job, run_job
from roboreel.stats import image_stats
from tests.clean import CAMERAS, VERSIONS, clean_dataset
from tests.corruptions import CORRUPTIONS
from tests.factory import write_dataset
from tests.jobs.test_jobs import home, tree  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from pathlib import Path

    from roboreel.jobs import Plan

PICTURE = {"*": Jpeg((24, 32), 80)}


def plans(root: Path, out: Path) -> dict[str, Plan]:
    """Return a plan of many small tasks for each operation."""
    dataset = reel.open_dataset(root)
    return {
        "stats": plan_statistics(dataset, images=True, task_s=1e-3),
        "check, numbers": plan_check(root, tier="numbers", task_s=1e-3),
        "check, index": plan_check(root, tier="index", task_s=1e-2),
        "check, deep": plan_check(root, tier="deep", task_s=5e-3),
        "cache": plan_build(dataset, out, PICTURE, task_s=1e-4),
    }


@pytest.mark.parametrize(
    "name", ["stats", "check, numbers", "check, index", "check, deep", "cache"]
)
def test_processes_and_five_shards_leave_the_bytes_of_this_process(name, tmp_path):
    root, out = clean_dataset(tmp_path / "arm"), tmp_path / "cache"
    plan = plans(root, out)[name]
    assert len(plan) > 1
    seen = []
    for number, runs in enumerate(
        (
            lambda job: run_job(job, InProcess()),
            lambda job: run_job(job, Processes(2)),
            lambda job: [run_job(open_job(job.path), InProcess(), shard=(i, 5)) for i in range(5)],
        )
    ):
        job = create_job(tmp_path / f"job{number}", plan)
        runs(job)
        parts = tree(job.path / "parts")
        result = job.commit()
        published = tree(out) if out.exists() else {}
        seen.append((parts, json.dumps(result), published))
        if out.exists():
            (out / "cache.json").unlink()
    assert seen[0] == seen[1] == seen[2]


class TestStatistics:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_they_are_those_of_one_pass_and_of_all_images(self, version, tmp_path):
        dataset = reel.open_dataset(clean_dataset(tmp_path / "arm", version))
        found = stats_of(execute(plan_statistics(dataset, images=True, task_s=1e-4)))
        for name, one in dataset.compute_stats().items():
            np.testing.assert_allclose(found[name].mean, one.mean, rtol=1e-12)
            np.testing.assert_allclose(found[name].std, one.std, rtol=1e-9)
            np.testing.assert_array_equal(found[name].min, one.min)
            # So few values that the sketch holds all of them.
            for key, quantile in one.quantiles.items():
                np.testing.assert_array_equal(found[name].quantiles[key], quantile)
        for camera in CAMERAS:
            images = dataset.read(np.arange(len(dataset)), [camera])[camera]
            right = image_stats(images)
            assert found[camera].mean.tolist() == right.mean.tolist()
            assert found[camera].quantiles["q50"].tolist() == right.quantiles["q50"].tolist()

    def test_a_view_has_those_of_its_episodes(self, tmp_path):
        view = reel.open_dataset(clean_dataset(tmp_path / "arm")).select([1, 2])
        found = stats_of(execute(plan_statistics(view, ["action"], task_s=1e-4)))
        assert list(found) == ["action"]
        right = view.compute_stats(["action"])["action"]
        np.testing.assert_allclose(found["action"].mean, right.mean, rtol=1e-12)

    def test_a_feature_that_is_not_numeric_is_refused(self, tmp_path):
        dataset = reel.open_dataset(clean_dataset(tmp_path / "arm"))
        with pytest.raises(FeatureNotFoundError):
            plan_statistics(dataset, [CAMERAS[0]])

    def test_a_dataset_that_has_changed_is_not_mixed(self, tmp_path):
        root = clean_dataset(tmp_path / "arm")
        plan = plan_statistics(reel.open_dataset(root), task_s=1e-4)
        (root / "meta" / "info.json").write_text((root / "meta" / "info.json").read_text() + "\n")
        with pytest.raises(JobError, match="has changed since the job was made"):
            execute(plan, on=InProcess(), folder=tmp_path / "job", retries=0)


class TestCache:
    @pytest.mark.parametrize("picture", [Jpeg(quality=90), Raw((6, 8))])
    def test_it_is_the_cache_that_materialize_builds(self, picture, tmp_path):
        write_dataset(
            tmp_path / "arm",
            [1500] * 3,
            features={"cam": reel.Feature("image", (8, 12, 3)), "x": reel.Feature("float32", (2,))},
        )
        dataset = reel.open_dataset(tmp_path / "arm")
        dataset.materialize(tmp_path / "one", {"cam": picture})
        plan = plan_build(dataset, tmp_path / "two", {"cam": picture}, task_s=1e-4)
        assert len(plan) == 3
        execute(plan, on=InProcess())
        assert tree(tmp_path / "two") == tree(tmp_path / "one")
        assert verify_cache(tmp_path / "two", dataset.manifest, checksums=True) == []

    def test_committing_again_after_a_crash_ends_the_same_way(self, tmp_path):
        dataset = reel.open_dataset(clean_dataset(tmp_path / "arm"))
        plan = plan_build(dataset, tmp_path / "out", PICTURE, task_s=1e-4)
        job = create_job(tmp_path / "job", plan)
        run_job(job, InProcess())
        parts = list(job._parts())
        job.operation.commit(plan, iter(parts[:1]))
        (tmp_path / "out" / "cache.json").unlink()
        whole = job.commit()
        assert whole["rows"] == len(dataset)
        assert verify_cache(tmp_path / "out", dataset.manifest, checksums=True) == []


def _same(job, direct):
    assert [one for one in job if one not in direct] == []
    assert [one for one in direct if one not in job] == []
    assert job == direct


class TestChecks:
    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize("tier", ["metadata", "numbers", "index", "deep"])
    def test_a_clean_dataset_has_the_findings_of_one_process(self, version, tier, tmp_path):
        root = clean_dataset(tmp_path / "arm", version)
        plan = plan_check(root, tier=tier, task_s=1e-4)
        assert (len(plan) > 1) == (tier != "metadata")
        _same(findings_of(execute(plan)), check_dataset(root, tier=tier))

    @pytest.mark.long
    @pytest.mark.parametrize("corruption", CORRUPTIONS, ids=str)
    def test_a_corruption_has_the_findings_of_one_process(self, corruption, tmp_path):
        root = clean_dataset(tmp_path / "arm", corruption.versions[-1])
        corruption.apply(root)
        try:
            plan = plan_check(root, task_s=1e-4)
        except DatasetError:
            assert len(check_dataset(root)) > 0
            return
        _same(findings_of(execute(plan)), check_dataset(root))

    def test_codes_and_episodes_are_kept(self, tmp_path):
        root = clean_dataset(tmp_path / "arm")
        asked: Any = {"only": ["RR5", "RR6"], "ignore": ["RR603"], "episodes": [1, 2]}
        plan = plan_check(root, tier="deep", task_s=1e-4, **asked)
        _same(findings_of(execute(plan)), check_dataset(root, tier="deep", **asked))

    def test_what_checks_have_seen_comes_back_and_nothing_else_does(self):
        value = {("a", 1): [None, True, 1.5, float("inf")], "b": {3, 1}, "c": np.arange(3.0)}
        again = from_plain(json.loads(json.dumps(to_plain(value))))
        assert again["b"] == {1, 3}
        assert again["a", 1] == value["a", 1]
        assert again["c"].tolist() == [0.0, 1.0, 2.0]
        with pytest.raises(TypeError, match="do not keep"):
            to_plain(object())
        with pytest.raises(ValueError, match="Not what a check has seen"):
            from_plain(["Popen", []])
