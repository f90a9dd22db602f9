"""The checks: one file for each family, one function for each check, pure judgement of facts."""
