"""Static analysis of Python code: what it loads, imports and binds."""
