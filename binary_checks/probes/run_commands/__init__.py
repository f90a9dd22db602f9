"""Runs commands in a place: compilers, build tools, and the programs that come of them."""
