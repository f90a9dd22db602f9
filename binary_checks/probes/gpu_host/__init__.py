"""What the driver of this host is, and which devices it has."""
