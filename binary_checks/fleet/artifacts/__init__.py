"""The repository of artifacts: packages kept by their bytes, and channels that have them."""
