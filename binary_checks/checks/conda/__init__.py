"""What only conda packages promise: dependencies, virtual packages, prefixes."""
