"""Scripts that start or confine other programs, run by path in an interpreter of their own."""
