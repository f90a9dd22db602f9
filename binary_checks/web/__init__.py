"""HTTP client: retries, limits, and credentials that appear in no message."""
