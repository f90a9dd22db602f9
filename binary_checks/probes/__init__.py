"""Scripts for the target interpreter: ``python -I probe.py``.

Each converses over its standard input and output (``process.py``; ``environments/answers.py`` is
the other side). Each imports the standard library alone, and as little of it as it can, so that a
package which forgot an import of its own does not find it done. Python 3.8 and later.
``supervisor.py`` is run by our own interpreter, between us and a probe.
"""
