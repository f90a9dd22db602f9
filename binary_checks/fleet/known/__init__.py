"""Lists of known problems over nights: what entries matched, what to add and what to mend."""
