"""Builds C++ programs against an unpacked archive: CMake, the compiler alone, pkg-config."""
