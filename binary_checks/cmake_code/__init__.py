"""CMake's and pkg-config's files, read without running them."""
