"""CI: the files with which CI systems run a matrix, generated from one pipeline."""
