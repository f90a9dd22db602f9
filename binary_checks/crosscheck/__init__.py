"""The second opinion: other libraries also read the objects, and the facts are compared."""
