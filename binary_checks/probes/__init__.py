"""What a package does when it runs: a folder a probe, with a script and the reader of its answer.

``script.py`` is for the target interpreter: ``python -I script.py``. Each converses over its
standard input and output (``process.py``; ``places/conversation.py`` is the other side). Each
imports the standard library alone, and as little of it as it can, so that a package which forgot
an import of its own does not find it done. Python 3.8 and later.
"""
