"""Which versions NVIDIA's libraries have that a process has loaded."""
