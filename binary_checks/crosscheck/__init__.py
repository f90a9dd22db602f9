"""The second opinion: read objects with other libraries too, and compare the facts."""
