"""Whether the tests that a conda package carries pass where it is installed."""
