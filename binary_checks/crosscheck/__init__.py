"""The second opinion: each object read by the library of its format too, fact by fact."""
