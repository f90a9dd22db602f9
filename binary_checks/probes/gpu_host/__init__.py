"""The driver of this host, and its devices."""
