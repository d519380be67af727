"""Writers whose n-th change of a file fails or is their last: ``python -m tests.faults``."""
