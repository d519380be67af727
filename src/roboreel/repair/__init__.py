"""Repairs of what `roboreel.check` finds: planned, shown, and applied as one commit."""

from roboreel.repair.plan import RepairPlan
from roboreel.repair.planning import plan_repair

__all__ = ["RepairPlan", "plan_repair"]
