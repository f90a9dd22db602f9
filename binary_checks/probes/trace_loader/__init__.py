"""Loading of objects by a clean system's own loader, without a script or a Python."""
