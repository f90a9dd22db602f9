"""Whether entry points can be loaded."""
