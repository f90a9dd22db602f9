"""A package in, a place to run probes out, and what the probes answered."""

from binary_checks.environments.existing import list_folders, open_existing
from binary_checks.environments.extensions import load_extensions
from binary_checks.environments.gpu_steps import demand_gpu, read_work, use_gpu
from binary_checks.environments.imports import import_names
from binary_checks.environments.names import find_extensions, find_import_names
from binary_checks.environments.sandbox import Sandbox, choose_sandbox
from binary_checks.environments.snippets import run_snippets
from binary_checks.environments.venv import Environment, open_environment
from binary_checks.environments.without_gpu import ask_without_gpu, read_questions

__all__ = [
    "Environment",
    "Sandbox",
    "ask_without_gpu",
    "choose_sandbox",
    "demand_gpu",
    "find_extensions",
    "find_import_names",
    "import_names",
    "list_folders",
    "load_extensions",
    "open_environment",
    "read_questions",
    "read_work",
    "open_existing",
    "run_snippets",
    "use_gpu",
]
