"""Whether the loader finds, on a user's system, the libraries that objects need."""
