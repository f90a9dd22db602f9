"""Archives of C++ libraries: what users compile and link with, read without building anything."""
