"""Reads Mach-O files."""
