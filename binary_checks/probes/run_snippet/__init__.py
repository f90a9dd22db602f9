"""Snippets of Python in a profile."""
