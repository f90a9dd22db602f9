"""What only a host with a GPU can show: work on it, its results, and what it leaves behind."""
