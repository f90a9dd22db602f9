"""Loading of extension modules."""
