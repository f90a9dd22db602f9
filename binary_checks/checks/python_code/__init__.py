"""Checks of the package's own Python code, which is read and never run."""
