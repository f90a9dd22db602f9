"""Facts and results as JSON documents: writing, reading and decoding them."""
