"""Facts about an interpreter."""
