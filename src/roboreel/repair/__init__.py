"""Repairs of what `roboreel.check` finds: planned, shown, and applied as one commit."""

from roboreel.repair.plan import RepairPlan
from roboreel.repair.planning import plan_repair
from roboreel.repair.rounds import Repaired, repair_dataset

__all__ = ["RepairPlan", "Repaired", "plan_repair", "repair_dataset"]
