"""cells.toml: the matrix from one source, as cells, shards and what they match."""
