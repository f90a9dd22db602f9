"""What an interpreter is."""
