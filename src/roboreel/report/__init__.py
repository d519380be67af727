"""A page about a dataset: what is in it, and what looks wrong."""

from roboreel.report.page import write_report

__all__ = ["write_report"]
