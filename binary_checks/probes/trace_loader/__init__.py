"""Whether the loader of a clean system takes objects, by its own words: no script, no Python."""
