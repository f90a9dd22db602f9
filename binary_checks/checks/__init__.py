"""The checks: one file a family, one function a check, pure judgement over facts."""
