"""roboreel edits a dataset."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.edited_images import changed_images

if TYPE_CHECKING:
    from benchmarks.meter import Meter


def delete(meter: Meter, root: str, out: str) -> None:
    """Delete an episode in the middle, in place, and take it back."""
    with meter.step("import"):
        from roboreel import edit_dataset, open_dataset
        from roboreel.commit import undo_change
    count = len(open_dataset(root).episodes)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(root, out)
    gone = count // 2
    with meter.step("edit"):
        edit_dataset(out).delete([gone]).apply()
    pairs = [(e, e - (e > gone)) for e in range(count) if e != gone]
    meter.note(changed=changed_images(root, out, pairs))
    undo_change(out)
    shutil.rmtree(out)


def trim(meter: Meter, root: str, out: str) -> None:
    """Cut the start off an episode, in place, and take it back."""
    with meter.step("import"):
        from roboreel import edit_dataset
        from roboreel.commit import undo_change
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(root, out)
    with meter.step("edit"):
        edit_dataset(out).trim(1, start=3).apply()
    meter.note(changed=changed_images(root, out, [(0, 0), (2, 2), (3, 3)]))
    undo_change(out)
    shutil.rmtree(out)


def merge(meter: Meter, root: str, out: str) -> None:
    """Merge a dataset with itself."""
    with meter.step("import"):
        from roboreel import open_dataset
        from roboreel.edit import plan_merge
    count = len(open_dataset(root).episodes)
    shutil.rmtree(out, ignore_errors=True)
    with meter.step("edit"):
        plan_merge([root, root], out).apply()
    meter.note(changed=changed_images(root, out, [(e, e + count) for e in range(count)]))
    shutil.rmtree(out)


def convert(meter: Meter, root: str, out: str) -> None:
    """Convert v2.1 to v3.0, and compare every row and packet."""
    with meter.step("import"):
        from roboreel.edit import plan_conversion, verify_copy
    shutil.rmtree(out, ignore_errors=True)
    with meter.step("edit"):
        plan = plan_conversion(root, "v3.0", out)
        plan.apply()
        verify_copy(plan)
    reference = str(Path(root).parent / "v30")
    pairs = [(e, e) for e in range(plan.num_episodes)]
    meter.note(changed=changed_images(reference, out, pairs))
    shutil.rmtree(out)
