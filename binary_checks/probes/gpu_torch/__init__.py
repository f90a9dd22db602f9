"""Work of torch on a GPU, step by step."""
