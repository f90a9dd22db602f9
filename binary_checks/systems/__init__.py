"""The systems named by tags, as data: permitted versions, and exports of libraries and Pythons.

The data do not depend on the machine that reads them. The scripts that generated the data, and
their sources, are in the repository's ``fixtures/systems``.
"""

from binary_checks.systems.classifiers import classifiers
from binary_checks.systems.interpreters import free_threaded_symbols, interpreter, stable_abi
from binary_checks.systems.libraries import policies, policy_for, system_library
from binary_checks.systems.promised import target_for

__all__ = [
    "classifiers",
    "free_threaded_symbols",
    "interpreter",
    "policies",
    "policy_for",
    "stable_abi",
    "system_library",
    "target_for",
]
