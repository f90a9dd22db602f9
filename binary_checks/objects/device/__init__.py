"""Reads code for GPUs in files of all formats."""
