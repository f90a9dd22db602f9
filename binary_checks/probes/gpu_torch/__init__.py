"""What torch does on a GPU, step by step."""
