"""Whether the loader finds, at the user's, what objects need, and where they have it looked for."""
