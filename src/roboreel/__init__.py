"""Read, record and look at robot-learning datasets, in place."""
