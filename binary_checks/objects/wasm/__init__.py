"""Reads WebAssembly modules."""
