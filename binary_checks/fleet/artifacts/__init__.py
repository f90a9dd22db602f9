"""The artifact repository: packages stored by their hash, and channels that contain them."""
