"""A toy probe: how many files a place has."""
