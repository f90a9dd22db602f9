"""Windows packages under wine: what wine cannot load is evidence, and a pass proves nothing."""
