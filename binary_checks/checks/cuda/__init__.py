"""What a CUDA build is proven by without a GPU, without a driver and without a toolkit."""
