"""The fleet: many packages, every night. It runs `binary-checks` as a process and reads results.

Nothing in this room judges a package or imports pytest. The store's files are the truth: engines,
tables and pages can be discarded and made again from them.
"""
