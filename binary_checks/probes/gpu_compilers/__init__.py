"""Machine code from NVRTC, nvJitLink and Triton, which need neither a GPU nor a driver."""
