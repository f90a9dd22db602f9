"""Facts and results as JSON: written, read and decoded."""
