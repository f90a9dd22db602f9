"""The differences of two builds: one pure function each, over the facts of both."""
