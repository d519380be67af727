"""What all tests share."""

from hypothesis import settings

# A busy machine is no reason to fail: speed is measured in benchmarks/, never asserted here.
settings.register_profile("roboreel", deadline=None)
settings.load_profile("roboreel")
