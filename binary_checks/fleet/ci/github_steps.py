"""What all workflows that are written for GitHub share: its limits, and the usual steps."""

from __future__ import annotations

from typing import Any

from binary_checks.fleet.ci.action_pins import demand_pin
from binary_checks.fleet.ci.pipeline import Pipeline

Json = dict[str, Any]
FOLDER = ".github/workflows"
OFFICE = "ubuntu-24.04"
"""The machine of jobs that run no package."""
READ = {"contents": "read"}
ALWAYS = "!cancelled()"
BASH = {"run": {"shell": "bash"}}


def say(expression: str) -> str:
    """An expression, as GitHub reads it."""
    return f"${{{{ {expression} }}}}"


def list_variables(pipeline: Pipeline, **values: str) -> Json:
    """The variables of every job, and others: installing reads them, too."""
    found = {**pipeline.settings.environment, **values}
    return {"env": found} if found else {}


def use(pipeline: Pipeline, action: str, **given: Any) -> Json:
    """A step that uses a pinned action; underscores of its inputs stand for dashes."""
    step: Json = {"uses": demand_pin(pipeline.settings.actions, action).used}
    return {**step, "with": {key.replace("_", "-"): value for key, value in given.items()}}


def check_out(pipeline: Pipeline) -> Json:
    """The repository, without what would let later steps write to it."""
    return use(pipeline, "actions/checkout", persist_credentials=False)


def set_up_python(pipeline: Pipeline, version: str) -> Json:
    """The Python of the job, or several, a line each, of which the last one is `python`."""
    given: Json = {"python_version": version, "allow_prereleases": True}
    return use(pipeline, "actions/setup-python", **given)
