"""What tests and fixtures share: the plugin under test, and pytest's own tester of plugins.

The plugin is loaded here and not by its entry point (``-p no:binary_checks`` in pyproject.toml):
coverage has started by now, and the code that runs is the one of this checkout or of the wheel
that was installed, whichever is first on the path.
"""

import os

os.environ.pop("GITHUB_ACTIONS", None)  # else packages of tests would annotate our own commits
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles us

pytest_plugins = ["binary_checks.plugin", "pytester"]
