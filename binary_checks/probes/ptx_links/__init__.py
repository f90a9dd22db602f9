"""Compilation of shipped PTX for GPUs for which a package has no machine code."""
