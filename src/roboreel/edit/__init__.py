"""Edits of datasets without loss: planned, shown, applied as one commit or as a new dataset."""

from roboreel.edit.operations import Edit, edit_dataset
from roboreel.edit.plan import EditPlan

__all__ = ["Edit", "EditPlan", "edit_dataset"]
