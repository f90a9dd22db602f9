"""Reads PE images."""
