"""Edits of datasets without loss: planned, shown, applied as one commit or as a new dataset."""

from roboreel.edit.converting import plan_conversion, plan_split
from roboreel.edit.merging import plan_merge
from roboreel.edit.operations import Edit, edit_dataset
from roboreel.edit.plan import EditPlan
from roboreel.edit.verifying import verify_copy

__all__ = [
    "Edit",
    "EditPlan",
    "edit_dataset",
    "plan_conversion",
    "plan_merge",
    "plan_split",
    "verify_copy",
]
