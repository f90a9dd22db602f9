"""Whether extension modules can be loaded."""
