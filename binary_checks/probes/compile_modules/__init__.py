"""Whether Python files compile."""
