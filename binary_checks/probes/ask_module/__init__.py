"""What a CUDA build says of itself where there is no GPU."""
