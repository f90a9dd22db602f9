"""Kernels compiled by Triton, which needs neither a GPU nor a driver."""
