"""Commands run in a place: compilers, build tools, and the programs that they build."""
