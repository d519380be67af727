"""A simulated arm that makes datasets worth looking at."""
