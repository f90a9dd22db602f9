"""Package indexes: what their pages list, and which of it an installer would take."""
