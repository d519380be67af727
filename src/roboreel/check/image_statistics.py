"""Stored statistics of cameras against those of the decoded images.

They cannot be equal: LeRobot looks at some images only, at a part of their pixels, and before they
are encoded. So extremes are not compared, and the others only roughly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roboreel.findings import finding
from roboreel.format.paths import STATS_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roboreel.findings import Finding
    from roboreel.stats import FeatureStats, ImageAccumulator

__all__ = ["CountedEpisode", "compare_camera", "count_episode"]
