"""What all tests share."""

import os

import pytest
from hypothesis import settings

# A busy machine is no reason to fail: speed is measured in benchmarks/, never asserted here.
# In CI the same examples every time: a change fails for what it changed. New ones are looked for
# wherever else the tests run.
settings.register_profile("roboreel", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("roboreel")


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Make fsync return at once: a busy disk takes a second for each, and no test can see the result.

    What depends on it is tested by models of power cuts, and in processes that call the real one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which also fails if the handle is closed
        yield
