"""Clean a dataset without loss: delete an episode, cut idle ends off, relabel, and convert it.

Run it with ``python examples/edit.py``; it makes a small dataset to work on.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import roboreel as reel
from roboreel.commit import undo_change
from roboreel.demo_arm import DemoSpec, make_demo_dataset
from roboreel.edit import plan_conversion, verify_copy


def main() -> None:
    """Edit, show what happened, take it back, and convert."""
    with tempfile.TemporaryDirectory() as scratch:
        root = make_demo_dataset(Path(scratch, "arm"), DemoSpec(4, 30, size=(96, 128)))
        edit = (
            reel.edit_dataset(root).delete([1]).trim(2, start_s=0.2).set_task([0], "wipe the table")
        )
        print(edit.plan())
        edit.apply()
        print(reel.open_dataset(root).episodes.lengths)
        undo_change(root)
        print(reel.open_dataset(root).episodes.lengths)

        plan = plan_conversion(root, "v2.1", Path(scratch, "arm-v21"))
        plan.apply()
        verify_copy(plan)  # every row and every packet
        print(reel.open_dataset(Path(scratch, "arm-v21")).version)


if __name__ == "__main__":
    main()
