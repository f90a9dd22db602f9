"""The systems named by tags, as data: what they allow, what their libraries and Pythons export.

Nothing here depends on the machine it runs on. The scripts that generated the data, and its
sources, are in the repository's ``fixtures/systems``.
"""

from binary_checks.systems.interpreters import interpreter, stable_abi
from binary_checks.systems.libraries import policies, policy_for, system_library
from binary_checks.systems.promised import target_for

__all__ = ["interpreter", "policies", "policy_for", "stable_abi", "system_library", "target_for"]
