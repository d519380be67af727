"""Conditions on episodes, written as text: parsed by us, never run as Python."""

from roboreel.dataset.query.columns import Column, column_of
from roboreel.dataset.query.evaluate import evaluate
from roboreel.dataset.query.parse import parse

__all__ = ["Column", "column_of", "evaluate", "parse"]
