"""Questions to a CUDA build on a host without a GPU."""
