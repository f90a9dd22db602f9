"""What macOS asks of libraries and programs, and of the halves of universal binaries."""
