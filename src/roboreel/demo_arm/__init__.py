"""A simulated arm that makes datasets worth looking at."""

from roboreel.demo_arm.make import make_demo_dataset
from roboreel.demo_arm.spec import DemoSpec

__all__ = ["DemoSpec", "make_demo_dataset"]
