"""Python code followed without running it: what its expressions may be on Windows."""
