"""The way of a package through a run: from the name that the user gave to facts and verdicts."""
