"""Import of a package's names."""
