"""A simulated arm that makes datasets worth looking at."""

from roboreel.demo_arm.make import DemoSpec, make_demo_dataset

__all__ = ["DemoSpec", "make_demo_dataset"]
