"""A file that is published, before it is downloaded: what its index says, and what ranges show."""
