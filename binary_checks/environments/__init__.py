"""A package in, a place to run probes out, and what the probes answered."""
