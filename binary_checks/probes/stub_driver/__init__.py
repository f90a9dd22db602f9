"""What a CUDA build says where NVIDIA's driver is there and refuses to start."""
