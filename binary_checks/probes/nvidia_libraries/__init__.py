"""Versions of NVIDIA's libraries in a process."""
