"""Where a package runs: environments, installers, sandboxes, and processes that end."""

from binary_checks.places.existing import list_folders, open_existing
from binary_checks.places.sandbox import Sandbox, choose_sandbox
from binary_checks.places.venv import Environment, open_environment

__all__ = [
    "Environment",
    "Sandbox",
    "choose_sandbox",
    "list_folders",
    "open_environment",
    "open_existing",
]
