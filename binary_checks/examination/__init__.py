"""The steps for each package of a run: from the user's argument to facts and verdicts."""
