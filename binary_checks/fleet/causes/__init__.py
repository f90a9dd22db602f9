"""Causes: why an attempt failed, by rules for reasons and logs and by how its process ended."""
