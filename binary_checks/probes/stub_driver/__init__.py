"""A CUDA build with a driver that is present but refuses to start."""
