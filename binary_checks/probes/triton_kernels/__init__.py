"""Whether Triton compiles kernels, for which neither a GPU nor a driver is needed."""
