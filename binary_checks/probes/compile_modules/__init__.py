"""Compilation of a package's Python files."""
