"""Package indexes: the files that they list, and the file that an installer would choose."""
