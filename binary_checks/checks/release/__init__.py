"""The packages of one release, held against each other and against what is expected of them."""
