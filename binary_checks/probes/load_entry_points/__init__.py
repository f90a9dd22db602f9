"""Loading of entry points."""
