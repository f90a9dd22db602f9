"""Checks that need a host with a GPU: work on it, its results, and the memory it keeps."""
