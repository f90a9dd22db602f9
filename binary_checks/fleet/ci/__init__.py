"""The files by which CI systems run a matrix: one pipeline, written in the words of each system."""
