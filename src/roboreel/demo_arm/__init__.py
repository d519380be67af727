"""A simulated arm that makes datasets worth looking at."""

from roboreel.demo_arm.make import Sample, make_sample

__all__ = ["Sample", "make_sample"]
