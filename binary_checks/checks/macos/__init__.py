"""What macOS requires of libraries and programs, and of the slices of universal binaries."""
