"""The package's own Python code: read, never run."""
