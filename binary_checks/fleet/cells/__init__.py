"""Cells: the matrix in cells.toml, and the choice of cells for a run."""
