"""Reads code for GPUs, wherever it lies."""
