"""The way of a package through a run: what the user named, its facts, and the verdicts on it."""
