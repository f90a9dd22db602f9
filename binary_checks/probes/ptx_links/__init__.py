"""Whether shipped PTX can be compiled for GPUs that have no machine code of their own."""
