"""What a store keeps of its nights and channels, and what may go: one rule for each, one prune."""
