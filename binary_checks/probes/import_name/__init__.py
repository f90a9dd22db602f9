"""Whether a name can be imported."""
