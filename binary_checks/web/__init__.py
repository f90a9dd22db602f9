"""Reads what lies behind URLs: a client that is patient, bounded, and silent about credentials."""
