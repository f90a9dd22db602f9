"""Retention: what a store keeps of its nights and channels, and the deletion of other objects."""
