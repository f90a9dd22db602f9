"""C++ programs built against an unpacked archive with CMake, the compiler alone, and pkg-config."""
