"""Compilation of shipped PTX for GPUs without machine code of their own."""
