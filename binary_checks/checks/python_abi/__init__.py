"""The C APIs of Python and NumPy: whether extension modules fit those that are promised."""
