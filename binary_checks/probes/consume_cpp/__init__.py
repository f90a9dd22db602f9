"""C++ programs built against an unpacked archive: with CMake, only the compiler, and pkg-config."""
