"""Checks of CUDA builds that need no GPU, no driver and no toolkit."""
