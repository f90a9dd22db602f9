"""Scripts for the target interpreter: ``python -I probe.py REQUEST.json ANSWER.json``.

Each imports the standard library alone, and as little of it as it can, so that a package which
forgot an import of its own does not find it done. Python 3.8 and later.
"""
