"""Causes of failed attempts: read from results and logs, or known from a process's end."""
