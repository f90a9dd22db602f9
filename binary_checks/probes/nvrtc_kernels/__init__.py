"""Whether NVIDIA's run-time compiler works, for which neither a GPU nor a driver is needed."""
