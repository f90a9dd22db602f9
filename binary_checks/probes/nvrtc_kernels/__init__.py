"""Kernels compiled with NVIDIA's run-time compiler, which needs neither a GPU nor a driver."""
