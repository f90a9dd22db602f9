"""Scripts that start or confine other programs, each run by its path in a separate interpreter."""
