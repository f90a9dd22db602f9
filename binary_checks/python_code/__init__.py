"""Python code followed without running it: what it loads, imports and binds."""
