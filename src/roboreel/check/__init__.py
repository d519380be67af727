"""Everything that is wrong with a dataset, as findings with codes; nothing is changed."""

from roboreel.check.result import Findings
from roboreel.check.run import check_dataset

__all__ = ["Findings", "check_dataset"]
