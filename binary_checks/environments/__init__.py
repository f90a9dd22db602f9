"""A package in, a place to run probes out, and what the probes answered."""

from binary_checks.environments.extensions import load_extensions
from binary_checks.environments.imports import import_names
from binary_checks.environments.names import find_extensions, find_import_names
from binary_checks.environments.snippets import run_snippets
from binary_checks.environments.venv import Environment, open_environment

__all__ = [
    "Environment",
    "find_extensions",
    "find_import_names",
    "import_names",
    "load_extensions",
    "open_environment",
    "run_snippets",
]
