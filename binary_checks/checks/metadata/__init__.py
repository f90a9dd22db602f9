"""What a package declares of itself: one module a part of METADATA and WHEEL."""
