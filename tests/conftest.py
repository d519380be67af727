"""What all tests share."""

import os

from hypothesis import settings

# A busy machine is no reason to fail: speed is measured in benchmarks/, never asserted here.
# In CI the same examples every time: a change fails for what it changed. New ones are looked for
# wherever else the tests run.
settings.register_profile("roboreel", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("roboreel")
