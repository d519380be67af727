"""LeRobot 0.6.1 edits a dataset; runs in its own environment. Opening it is part of the edit, as in ours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.edited_images import changed_images
from benchmarks.peers.lerobot import declare_missing_operator

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def delete(meter: Meter, root: str, out: str) -> None:
    """Delete an episode in the middle, which writes a new dataset."""
    with meter.step("import"):
        declare_missing_operator()
        from lerobot.datasets.dataset_tools import delete_episodes
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    shutil.rmtree(out, ignore_errors=True)
    with meter.step("edit"):
        dataset = LeRobotDataset("bench/edit", root=root)
        count = dataset.num_episodes
        gone = count // 2
        delete_episodes(dataset, [gone], output_dir=out, repo_id="bench/out")
    pairs = [(e, e - (e > gone)) for e in range(count) if e != gone]
    meter.note(changed=changed_images(root, out, pairs))
    shutil.rmtree(out)


def merge(meter: Meter, root: str, out: str) -> None:
    """Merge a dataset with itself."""
    with meter.step("import"):
        declare_missing_operator()
        from lerobot.datasets.dataset_tools import merge_datasets
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    shutil.rmtree(out, ignore_errors=True)
    with meter.step("edit"):
        both = [LeRobotDataset("bench/edit", root=root) for _ in range(2)]
        count = both[0].num_episodes
        merge_datasets(both, output_repo_id="bench/out", output_dir=out)
    meter.note(changed=changed_images(root, out, [(e, e + count) for e in range(count)]))
    shutil.rmtree(out)


def convert(meter: Meter, root: str, out: str) -> None:
    """Convert v2.1 to v3.0."""
    with meter.step("import"):
        declare_missing_operator()
        from lerobot.scripts import convert_dataset_v21_to_v30 as script
    shutil.rmtree(out, ignore_errors=True)
    old, new = Path(root), Path(out)
    with meter.step("edit"):
        script.convert_info(old, new, 100, 200)
        script.convert_tasks(old, new)
        data = script.convert_data(old, new, 100)
        videos = script.convert_videos(old, new, 200)
        script.convert_episodes_metadata(old, new, data, videos)
    reference = str(old.parent / "v30")
    count = len((old / "meta/episodes.jsonl").read_text().splitlines())
    meter.note(changed=changed_images(reference, out, [(e, e) for e in range(count)]))
    shutil.rmtree(out)
