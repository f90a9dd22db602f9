"""The page of all nights: static, offline, complete without script."""
