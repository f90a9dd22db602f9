"""Reads ``[[ci.jobs]]``: what CI runs beside the cells, or for some of them, as data."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci.action_pins import ActionPin
from binary_checks.profile.known import CellCondition, read_condition
from binary_checks.profile.toml_values import convert, reject_unknown

_NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")
_AXIS = re.compile(r"[a-z][a-z0-9_]{0,39}")
_RESERVED = "binary-checks"  # how the names of our own workflows begin
LISTING = "cells"
"""The job that lists the cells for the others of its workflow."""
_STEP = {"name": str, "run": str, "uses": str, "with": dict, "env": Mapping[str, str], "if": str}
_MOST_SECONDS = 6 * 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnWorkflow:
    """A workflow of the project's own jobs, and what begins it."""

    name: str  # of its file, too
    branches: tuple[str, ...] = ()  # pushes to them
    tags: tuple[str, ...] = ()
    pull_requests: bool = False  # a newer push ends the run of an older one
    schedule: str = ""  # cron, in UTC; by hand then, too


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnStep:
    """A line of shell, or an action."""

    name: str = ""
    run: str = ""
    uses: str = ""  # an action that is pinned
    given: Mapping[str, Any] = field(default_factory=dict)  # to the action
    environment: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnJob:
    """A job of a workflow; for each cell that its condition is about, or once."""

    workflow: str
    name: str
    steps: tuple[OwnStep, ...]
    condition: CellCondition | None = None
    matrix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # further axes
    runner: str = ""  # of a job without cells
    python: str = ""  # likewise; "" needs none
    needs: tuple[str, ...] = ()
    timeout: float = 1800.0  # seconds
    checkout: bool = True
    permissions: Mapping[str, str] = field(default_factory=dict)  # {} reads the repository
    environment: Mapping[str, str] = field(default_factory=dict)  # a deployment's name and url
    takes: tuple[str, ...] = ()  # folders that a job before it has left
    leaves: tuple[str, ...] = ()  # to jobs after it; without one it fails
    keeps: tuple[str, ...] = ()  # for people, though it has failed, and if there is any
    where: str = ""  # it stands, for messages


_READ_APART = ("steps", "condition", "matrix", "where")
_WORKFLOW_KEYS = {
    key: kind for key, kind in typing.get_type_hints(OwnWorkflow).items() if key != "name"
}
_PLAIN = {
    key: kind for key, kind in typing.get_type_hints(OwnJob).items() if key not in _READ_APART
}
JOB_KEYS: Mapping[str, Any] = {**_PLAIN, "when": str, "matrix": dict, "steps": list}
"""That an entry may have."""


def read_workflows(value: object, where: str) -> dict[str, OwnWorkflow]:
    """The tables ``[ci.workflows.NAME]``. Raises ProfileError."""
    found = {}
    for name, row in convert(value, dict, where).items():
        place = f"{where}.{name}"
        if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
            raise ProfileError(f"{place}: {name!r:.60} cannot be the name of a workflow of yours")
        table = convert(row, dict, place)
        reject_unknown(table, _WORKFLOW_KEYS, place, "key")
        kinds = {key: convert(table[key], _WORKFLOW_KEYS[key], f"{place}: {key}") for key in table}
        if not any(kinds.values()):
            raise ProfileError(f"{place}: nothing starts it; give {', '.join(_WORKFLOW_KEYS)}")
        found[name] = OwnWorkflow(name=name, **kinds)
    return found


def read_jobs(
    rows: Iterable[tuple[dict[str, Any], str]],
    workflows: Mapping[str, OwnWorkflow],
    actions: Mapping[str, ActionPin],
) -> Iterator[OwnJob]:
    """The entries, in order. Raises ProfileError."""
    seen: dict[tuple[str, str], str] = {}
    for row, where in rows:
        for key in ("workflow", "name", "steps"):
            if key not in row:
                raise ProfileError(f"{where}: {key!r} is missing")
        said = {
            key: convert(row[key], _PLAIN[key], f"{where}: {key}") for key in _PLAIN if key in row
        }
        job = OwnJob(
            **said,
            condition=_read_when(row, where),
            matrix=_read_matrix(row.get("matrix", {}), f"{where}: matrix"),
            steps=tuple(_read_steps(row["steps"], actions, f"{where}: steps")),
            where=where,
        )
        _demand_job(job, workflows, seen)
        yield job


def _read_when(row: Mapping[str, Any], where: str) -> CellCondition | None:
    if "when" not in row:
        return None
    for key in ("runner", "python"):
        if key in row:
            raise ProfileError(f"{where}: {key} and 'when': the cells have their own")
    return read_condition(convert(row["when"], str, f"{where}: when"), f"{where}: when")


def _read_matrix(value: object, where: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for axis, values in convert(value, dict, where).items():
        if not _AXIS.fullmatch(axis) or axis in ("runner", "python"):
            raise ProfileError(f"{where}: {axis!r:.60} cannot be the name of an axis")
        found[axis] = convert(values, tuple[str, ...], f"{where}: {axis}")
        if not found[axis]:
            raise ProfileError(f"{where}: {axis}: an empty list makes no job")
    return found


def _read_steps(value: object, actions: Mapping[str, ActionPin], where: str) -> Iterator[OwnStep]:
    if not isinstance(value, list) or not value:
        raise ProfileError(f"{where}: not a list of lines of shell and of actions")
    for number, each in enumerate(value):
        place = f"{where}[{number}]"
        table = {"run": each} if isinstance(each, str) else convert(each, dict, place)
        reject_unknown(table, _STEP, place, "key")
        said = {key: convert(table[key], _STEP[key], f"{place}: {key}") for key in table}
        if ("run" in said) is ("uses" in said):
            raise ProfileError(f"{place}: either run or uses")
        if "${{" in said.get("run", ""):
            raise ProfileError(f"{place}: an expression in a script; give it a variable by env")
        if "uses" in said:
            reject_unknown(
                [said["uses"]], actions, f"{place}: uses", "action; pin it in [ci.actions]:"
            )
        yield OwnStep(
            name=said.get("name", ""),
            run=said.get("run", ""),
            uses=said.get("uses", ""),
            given=said.get("with", {}),
            environment=said.get("env", {}),
            condition=said.get("if", ""),
        )


def _demand_job(
    job: OwnJob, workflows: Mapping[str, OwnWorkflow], seen: dict[tuple[str, str], str]
) -> None:
    """Raise ProfileError for a name that is no job's, or is another one's, or is not there yet."""
    reject_unknown([job.workflow], workflows, f"{job.where}: workflow", "workflow")
    if not _NAME.fullmatch(job.name):
        raise ProfileError(f"{job.where}: name: {job.name!r:.60} cannot be the name of a job")
    if job.name == LISTING:
        raise ProfileError(f"{job.where}: name: {LISTING} is the job that lists the cells")
    if (job.workflow, job.name) in seen:
        raise ProfileError(f"{job.where}: {job.workflow} has a job {job.name} already")
    before = {name: name for workflow, name in seen if workflow == job.workflow}
    reject_unknown(job.needs, before, f"{job.where}: needs", "job before it:")
    if not 0 < job.timeout <= _MOST_SECONDS:
        raise ProfileError(f"{job.where}: timeout: {job.timeout:g} s is not within 6 hours")
    reject_unknown(job.environment, {"name": "", "url": ""}, f"{job.where}: environment", "key")
    for folder in (*job.takes, *job.leaves, *job.keeps):
        if not _NAME.fullmatch(folder):
            raise ProfileError(f"{job.where}: {folder!r:.60} cannot be the name of a folder")
    seen[job.workflow, job.name] = job.where
