"""Causes of failed attempts, found by rules for reasons and logs, or by how a process ended."""
