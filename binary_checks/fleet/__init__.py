"""Judge many packages every night: run `binary-checks` as a process, and read its results.

Nothing in this folder judges a package itself or imports pytest. The store's files are the truth:
engines, tables and pages can be discarded and made again from them.
"""
