"""The tests in a conda package, run where it is installed."""
