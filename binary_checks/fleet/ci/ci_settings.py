"""Read ``[ci]``, ``[[runners]]`` and ``[[ci.jobs]]``: the stages that CI runs, and its machines."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from binary_checks import __version__
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import PIPS_INDEX, Matrix, read_rows, require_public, require_value
from binary_checks.fleet.ci.actions import ActionPin, read_pins
from binary_checks.fleet.night import AXES, Cell
from binary_checks.profile import (
    CellCondition,
    convert,
    convert_table,
    locate,
    parse_toml,
    read_condition,
    reject_unknown,
)

# ``[[runners]]``: the machines of each CI system that run the stages of a cell.

CPU, GPU = "cpu", "gpu"
HOSTED = ("github", "gitlab", "circleci", "azure")
"""The CI systems that have runners."""
RUNNER_KEYS: Mapping[str, Any] = {"when": str, "stage": str, **dict.fromkeys(HOSTED, object)}
"""The keys of an entry, with their types."""
_VALUES = {"labels": tuple[str, ...], "image": str, "pool": str, "size": str}
_TEXT = re.compile(r"[A-Za-z0-9{][A-Za-z0-9 ._:/@{}+-]{0,199}")
_BRACES = re.compile(r"\{([^{}]*)\}")
JOB_PYTHON = "job_python"
_AXES = {name: name for name in (*AXES, JOB_PYTHON)}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsOn:
    """A machine as one CI system names it; fields that this system does not have are empty."""

    labels: tuple[str, ...] = ()  # GitHub's labels, GitLab's tags, Azure's demands
    image: str = ""  # a container's, or Azure's vmImage
    pool: str = ""  # Azure's pool, CircleCI's kind of machine (macos, windows, machine)
    size: str = ""  # CircleCI's resource_class


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerRule:
    """One entry: the cells and the stage to which it applies, and the machine in each CI system."""

    condition: CellCondition
    stage: str  # cpu, gpu
    machines: Mapping[str, RunsOn]  # CI system -> machine
    where: str  # location of the entry, for messages


def read_runners(rows: Iterable[tuple[dict[str, Any], str]]) -> Iterator[RunnerRule]:
    """Yield the entries in order. Raises ProfileError."""
    for row, where in rows:
        if "when" not in row:
            raise ProfileError(f"{where}: 'when' is missing")
        stage = convert(row.get("stage", CPU), str, f"{where}: stage")
        if stage not in (CPU, GPU):
            raise ProfileError(f"{where}: stage: {stage!r:.40} is not one of: {CPU}, {GPU}")
        when = convert(row["when"], str, f"{where}: when")
        if not {*HOSTED} & {*row}:
            raise ProfileError(f"{where}: name a machine for one of: {', '.join(HOSTED)}")
        yield RunnerRule(
            condition=read_condition(when, f"{where}: when"),
            stage=stage,
            machines={
                system: _read_machine(system, row[system], f"{where}: {system}")
                for system in HOSTED
                if system in row
            },
            where=where,
        )


def _read_machine(system: str, value: object, where: str) -> RunsOn:
    """Read a machine: a name (label or image), "" for none, a list of labels, or a table."""
    if value == "":
        return RunsOn()
    if isinstance(value, str):
        value = {"labels": [value]} if system == "github" else {"image": value}
    elif isinstance(value, list):
        value = {"labels": value}
    table = convert(value, dict, where)
    values = convert_table(table, _VALUES, where)
    for key, found in values.items():
        for text in found if isinstance(found, tuple) else (found,):
            _require_text(text, f"{where}: {key}")
    if not any(values.values()):
        raise ProfileError(f"{where}: the entry names no machine")
    return RunsOn(**values)


def _require_text(text: str, where: str) -> None:
    if not _TEXT.fullmatch(text):
        raise ProfileError(f"{where}: {text!r:.60} is not the name of a machine or an image")
    reject_unknown(_BRACES.findall(text), _AXES, where, "axis")
    if {"{", "}"} & set(_BRACES.sub("", text)):
        raise ProfileError(f"{where}: {text!r:.60} has an unmatched brace")


def choose_machine(
    rules: Sequence[RunnerRule], cell: Cell, *, stage: str, system: str, python: str
) -> RunsOn | None:
    """Return the machine of the last matching entry that names the system, or None."""
    for rule in reversed(rules):
        if rule.stage == stage and system in rule.machines and rule.condition.meets(cell):
            machine = rule.machines[system]
            if machine == RunsOn():
                return None
            return _fill_machine(machine, cell, python, f"{rule.where}: {system}")
    return None


def _fill_machine(machine: RunsOn, cell: Cell, python: str, where: str) -> RunsOn:
    """Return the machine with the cell's values in place of {axis}. Raises ProfileError."""

    def value(found: re.Match[str]) -> str:
        text: str = python if found[1] == JOB_PYTHON else getattr(cell, found[1])
        if not text:
            raise ProfileError(f"{where}: {{{found[1]}}} has no value in {cell.id}")
        return text

    def put(text: str) -> str:
        return _BRACES.sub(value, text)

    return RunsOn(
        labels=tuple(map(put, machine.labels)),
        image=put(machine.image),
        pool=put(machine.pool),
        size=put(machine.size),
    )


# ``[[ci.jobs]]``: the project's own jobs, which run for some cells or once.

_NAME = re.compile(r"[a-z][a-z0-9-]{0,59}")
_AXIS = re.compile(r"[a-z][a-z0-9_]{0,39}")
_RESERVED_BEGINNING = "binary-checks"  # reserved for generated workflows
LISTING = "cells"
"""The name of the job that lists the cells for the other jobs of its workflow."""
_STEP = {"name": str, "run": str, "uses": str, "with": dict, "env": Mapping[str, str], "if": str}
_MOST_SECONDS = 6 * 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnWorkflow:
    """A workflow of the project's own jobs, and the events that start it."""

    name: str  # also the name of its file
    branches: tuple[str, ...] = ()  # pushes to these branches start it
    tags: tuple[str, ...] = ()
    pull_requests: bool = False  # on pull requests, where a newer push cancels the older run
    schedule: str = ""  # cron, in UTC; the workflow can then be started by hand, too


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnStep:
    """A line of shell, or an action."""

    name: str = ""
    run: str = ""
    uses: str = ""  # a pinned action
    given: Mapping[str, Any] = field(default_factory=dict)  # the action's inputs
    environment: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnJob:
    """A job of a workflow, run once, or for each cell that matches its condition."""

    workflow: str
    name: str
    steps: tuple[OwnStep, ...]
    condition: CellCondition | None = None
    matrix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # additional axes
    runner: str = ""  # only for jobs without cells
    python: str = ""  # only for jobs without cells; "" if it needs none
    needs: tuple[str, ...] = ()
    timeout: float = 1800.0  # seconds
    checkout: bool = True
    # {}: only read access to the repository
    permissions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)  # name and url of a deployment
    takes: tuple[str, ...] = ()  # folders that earlier jobs left
    leaves: tuple[str, ...] = ()  # folders for later jobs; it is an error if one is missing
    keeps: tuple[str, ...] = ()  # folders kept for people, if they exist, also after a failure
    where: str = ""  # location of the entry, for messages


_JOB_KEYS_READ_APART = ("steps", "condition", "matrix", "where")
_WORKFLOW_KEYS = {
    key: kind for key, kind in typing.get_type_hints(OwnWorkflow).items() if key != "name"
}
_PLAIN = {
    key: kind
    for key, kind in typing.get_type_hints(OwnJob).items()
    if key not in _JOB_KEYS_READ_APART
}
JOB_KEYS: Mapping[str, Any] = {**_PLAIN, "when": str, "matrix": dict, "steps": list}
"""The keys of an entry, with their types."""


def read_workflows(value: object, where: str) -> dict[str, OwnWorkflow]:
    """Read the tables ``[ci.workflows.NAME]``. Raises ProfileError."""
    found = {}
    for name, row in convert(value, dict, where).items():
        place = f"{where}.{name}"
        if not _NAME.fullmatch(name) or name.startswith(_RESERVED_BEGINNING):
            raise ProfileError(f"{place}: {name!r:.60} is not a valid name for a workflow")
        table = convert(row, dict, place)
        kinds = convert_table(table, _WORKFLOW_KEYS, place)
        if not any(kinds.values()):
            raise ProfileError(f"{place}: no event starts it; give {', '.join(_WORKFLOW_KEYS)}")
        found[name] = OwnWorkflow(name=name, **kinds)
    return found


def read_jobs(
    rows: Iterable[tuple[dict[str, Any], str]],
    workflows: Mapping[str, OwnWorkflow],
    actions: Mapping[str, ActionPin],
) -> Iterator[OwnJob]:
    """Yield the entries in order. Raises ProfileError."""
    seen: dict[tuple[str, str], str] = {}
    for row, where in rows:
        for key in ("workflow", "name", "steps"):
            if key not in row:
                raise ProfileError(f"{where}: {key!r} is missing")
        plain = {key: value for key, value in row.items() if key in _PLAIN}
        values = convert_table(plain, _PLAIN, where)
        job = OwnJob(
            **values,
            condition=_read_when(row, where),
            matrix=_read_matrix(row.get("matrix", {}), f"{where}: matrix"),
            steps=tuple(_read_steps(row["steps"], actions, f"{where}: steps")),
            where=where,
        )
        _require_job(job, workflows, seen)
        yield job


def _read_when(row: Mapping[str, Any], where: str) -> CellCondition | None:
    if "when" not in row:
        return None
    for key in ("runner", "python"):
        if key in row:
            raise ProfileError(
                f"{where}: {key} and 'when' exclude each other: each cell has its own {key}"
            )
    return read_condition(convert(row["when"], str, f"{where}: when"), f"{where}: when")


def _read_matrix(value: object, where: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for axis, values in convert(value, dict, where).items():
        if not _AXIS.fullmatch(axis) or axis in ("runner", "python"):
            raise ProfileError(f"{where}: {axis!r:.60} is not a valid name for an axis")
        found[axis] = convert(values, tuple[str, ...], f"{where}: {axis}")
        if not found[axis]:
            raise ProfileError(f"{where}: {axis}: an empty list makes no job")
    return found


def _read_steps(value: object, actions: Mapping[str, ActionPin], where: str) -> Iterator[OwnStep]:
    if not isinstance(value, list) or not value:
        raise ProfileError(f"{where}: not a list of shell lines and actions")
    for number, each in enumerate(value):
        place = f"{where}[{number}]"
        table = {"run": each} if isinstance(each, str) else convert(each, dict, place)
        values = convert_table(table, _STEP, place)
        if ("run" in values) is ("uses" in values):
            raise ProfileError(f"{place}: give either run or uses")
        if "${{" in values.get("run", ""):
            raise ProfileError(
                f"{place}: expressions are not allowed in scripts; use a variable in env"
            )
        if "uses" in values:
            reject_unknown(
                [values["uses"]], actions, f"{place}: uses", "action; pin it in [ci.actions]:"
            )
        yield OwnStep(
            name=values.get("name", ""),
            run=values.get("run", ""),
            uses=values.get("uses", ""),
            given=values.get("with", {}),
            environment=values.get("env", {}),
            condition=values.get("if", ""),
        )


def _require_job(
    job: OwnJob, workflows: Mapping[str, OwnWorkflow], seen: dict[tuple[str, str], str]
) -> None:
    """Raise ProfileError for invalid, repeated or unknown names in a job."""
    reject_unknown([job.workflow], workflows, f"{job.where}: workflow", "workflow")
    if not _NAME.fullmatch(job.name):
        raise ProfileError(f"{job.where}: name: {job.name!r:.60} is not a valid name for a job")
    if job.name == LISTING:
        raise ProfileError(
            f"{job.where}: name: {LISTING} is the name of the job that lists the cells"
        )
    if (job.workflow, job.name) in seen:
        raise ProfileError(f"{job.where}: {job.workflow} has a job {job.name} already")
    before = {name: name for workflow, name in seen if workflow == job.workflow}
    reject_unknown(job.needs, before, f"{job.where}: needs", "job before it:")
    if not 0 < job.timeout <= _MOST_SECONDS:
        raise ProfileError(f"{job.where}: timeout: {job.timeout:g} s is not between 0 and 6 hours")
    reject_unknown(job.environment, {"name": "", "url": ""}, f"{job.where}: environment", "key")
    for folder in (*job.takes, *job.leaves, *job.keeps):
        if not _NAME.fullmatch(folder):
            raise ProfileError(f"{job.where}: {folder!r:.60} is not a valid name for a folder")
    seen[job.workflow, job.name] = job.where


# ``[ci]``: the files to generate, how a cell is built, and where its packages go.

SYSTEMS = ("github", "gitlab", "circleci", "azure", "tox", "docs")
"""The systems for which files can be generated."""
_SHIPPED = "shipped.toml"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
_SECRET = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|KEY")
_RESERVED = re.compile(r"CELL(?:_.*)?|GITHUB_.*|CI|PATH|HOME|.*_CHANNEL|BINARY_CHECKS_STORE")
_VALUE = re.compile(r"(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{16}")  # ids that Amazon assigns to keys
_CRON = re.compile(r"[0-9*/,-]+(?: [0-9*/,-]+){4}")
_PYTHON = re.compile(r"3\.\d{1,2}")
_OLDEST = 11  # minor version of Python 3 that nights and artifacts need
_PINNED = re.compile(r"[#&]sha256=[0-9a-f]{64}(?:&|$)|\.git@[0-9a-f]{40}(?:#|$)")
"""Matches URLs that name the bytes by hash or the commit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CiSettings:
    """The table ``[ci]`` and ``[[runners]]``, with shipped defaults."""

    systems: tuple[str, ...]  # github, gitlab, circleci, azure, tox, docs
    # lines of shell that put a cell's files into dist/; () if nothing is built
    build: tuple[str, ...] = ()
    build_timeout: float = 3600.0  # seconds
    install: tuple[str, ...] = ()  # requirements for pip; () if no job installs the tool
    python: str = "3.13"  # the Python for the tool if a cell names none
    store: str = ""  # s3://bucket/prefix, or a folder that all runners share
    built: str = ""  # the channel for all builds
    published: str = ""  # the channel for builds that the policy admits
    policy: str = ""  # a file; "" for the gate of the published channel in the matrix
    key: str = ""  # name of the variable that holds the private key in PEM
    secrets: tuple[str, ...] = ()  # names of the variables that hold the store's credentials
    # variables of every job, without secrets
    environment: Mapping[str, str] = field(default_factory=dict)
    deployment: str = ""  # the GitHub environment that has the secrets
    branch: str = "main"
    schedule: str = "17 3 * * *"  # of the night, in UTC
    smoke_cells: int = 20  # cells of the night in one job
    runners: tuple[RunnerRule, ...] = ()
    actions: Mapping[str, ActionPin] = field(default_factory=dict)
    # for jobs of the project's own
    workflows: Mapping[str, OwnWorkflow] = field(default_factory=dict)
    jobs: tuple[OwnJob, ...] = ()

    @property
    def publish_secrets(self) -> tuple[str, ...]:
        """Names of all secrets that publishing needs."""
        return (*self.secrets, *filter(None, (self.key,)))


_READ_APART = ("runners", "actions", "workflows", "jobs")
_HINTS = typing.get_type_hints(CiSettings)
_TYPES = {key: kind for key, kind in _HINTS.items() if key not in _READ_APART}
_KEYS = {**_TYPES, "actions": dict, "workflows": dict, "jobs": list}


def has_settings(matrix: Matrix) -> bool:
    """Return whether the matrix's file has a table ``[ci]``."""
    return "ci" in parse_toml(matrix.content, matrix.source)


def read_ci(matrix: Matrix) -> CiSettings:
    """Return the CI settings in a matrix's file. Raises ProfileError."""
    name = matrix.source
    tables = parse_toml(matrix.content, name)
    where = f"{name}: ci"
    if not has_settings(matrix):
        raise ProfileError(f"{name}: it has no [ci]; `binary-checks ci init` appends one")
    table = convert(tables["ci"], dict, where)
    reject_unknown(table, _KEYS, where, "key")
    values = {
        key: _read(value, _TYPES[key], f"{locate(where, key)}: {key}")
        for key, value in table.items()
        if key in _TYPES
    }
    if "systems" not in values:
        raise ProfileError(f"{where}: 'systems' is missing; known: {', '.join(SYSTEMS)}")
    rows = read_rows(tables, matrix.content, name, "runners", RUNNER_KEYS)
    shipped = files(__package__).joinpath(_SHIPPED).read_bytes()
    ours = parse_toml(shipped, _SHIPPED)
    before = read_rows(ours, shipped, _SHIPPED, "runners", RUNNER_KEYS)
    actions = {
        **read_pins(ours["ci"]["actions"], f"{_SHIPPED}: ci.actions"),
        **read_pins(table.get("actions", {}), f"{where}.actions"),
    }
    workflows = read_workflows(table.get("workflows", {}), f"{where}.workflows")
    jobs = read_rows(table, matrix.content, name, "ci.jobs", JOB_KEYS)
    settings = CiSettings(
        **values,
        runners=(*read_runners(before), *read_runners(rows)),
        actions=actions,
        workflows=workflows,
        jobs=tuple(read_jobs(jobs, workflows, actions)),
    )
    _require_consistent(settings, where)
    source = matrix.sources.get(settings.published, PIPS_INDEX)
    if settings.published and not settings.policy and not source.gate:
        raise ProfileError(
            f"{where}: 'published' is set, but there is no policy: give policy = FILE, or "
            f"[sources.{settings.published}] with gate = FILE"
        )
    return settings


def require_install(settings: CiSettings, source: str) -> None:
    """Raise ProfileError if jobs install the tool and the settings do not state its source.

    There is no default, because anyone could register an unused name on an index.
    """
    listing = any(job.condition for job in settings.jobs)
    hosted = {*settings.systems} - {"tox", "docs"} and (settings.build or settings.store or listing)
    if settings.install or not (hosted or "tox" in settings.systems):
        return
    wheel = f"tools/binary_checks-{__version__}-py3-none-any.whl[fleet,sign]"
    raise ProfileError(
        f"{source}: ci: 'install' is missing: state which binary-checks the jobs install. Write "
        f'install = "./{wheel}" for a wheel in your repository, "binary-checks[fleet,sign] @ '
        'https://…/….whl#sha256=…" for a published one, or a requirement of an index that you trust'
    )


def _read(value: Any, kind: Any, where: str) -> Any:
    """Convert a value; a single text is accepted where a list of texts is expected."""
    if isinstance(value, str) and kind == tuple[str, ...]:
        value = [value]
    return convert(value, kind, where)


def _require_consistent(settings: CiSettings, where: str) -> None:
    """Raise ProfileError for impossible values, and if a setting needs one that is missing."""
    known = ", ".join(SYSTEMS)
    if not settings.systems:
        raise ProfileError(f"{where}: systems: name at least one of: {known}")
    for system in settings.systems:
        if system not in SYSTEMS:
            raise ProfileError(f"{where}: systems: {system!r:.40} is not one of: {known}")
    _require_texts(settings, where)
    _require_names(settings, where)
    for key, limit in (("build_timeout", 86_400), ("smoke_cells", 1_000)):
        if not 0 < getattr(settings, key) <= limit:
            raise ProfileError(f"{where}: {key}: {getattr(settings, key):g} is not in 1..{limit:,}")
    if settings.jobs and "github" not in settings.systems:
        raise ProfileError(
            f"{where}: jobs: only github supports them, and 'systems' does not name it"
        )
    lacking = [
        ("built", "store"),
        ("published", "built"),
        ("key", "store"),
        ("built", "build"),
    ]
    for has, needs in lacking:
        if getattr(settings, has) and not getattr(settings, needs):
            raise ProfileError(
                f"{where}: {has!r} is set, but {needs!r}, which it needs, is missing"
            )
    if settings.built and settings.built == settings.published:
        raise ProfileError(
            f"{where}: built and published are one channel, {settings.built!r:.40}; name a "
            "separate channel for builds; the policy decides which of them are published"
        )


def _require_texts(settings: CiSettings, where: str) -> None:
    """Check texts that become part of scripts: no control characters, no CI expressions."""
    listed = [("store", settings.store), ("policy", settings.policy), ("branch", settings.branch)]
    listed += [("deployment", settings.deployment)]
    lines = [("build", each) for each in settings.build]
    lines += [("install", each) for each in settings.install]
    for key, text in lines:
        if not text.strip():
            raise ProfileError(f"{where}: {key}: it has an empty line")
    for text in settings.install:
        if "://" in text and not _PINNED.search(text):
            raise ProfileError(
                f"{where}: install: the file at {text!r:.120} could change, and the jobs that "
                "install it have secrets; append #sha256=HASH of the wheel, or name a git "
                "repository as .git@COMMIT"
            )
    listed += [
        *lines,
        *((f"environment.{key}", each) for key, each in settings.environment.items()),
    ]
    for key, text in listed:
        require_text(text, f"{where}: {key}")
    if set("*?[") & {*settings.branch}:
        raise ProfileError(
            f"{where}: branch: {settings.branch!r:.60} is a pattern; name one branch"
        )
    require_public(settings.store, f"{where}: store")
    for key in ("policy", "store"):
        if getattr(settings, key).startswith("-"):
            raise ProfileError(f"{where}: {key}: it looks like an option")


def require_text(text: str, where: str) -> None:
    """Raise ProfileError for text that some CI system would change."""
    if not text.isprintable():
        raise ProfileError(f"{where}: {text!r:.60} is not one line of printable text")
    if "${{" in text or "<<" in text:
        raise ProfileError(
            f"{where}: {text!r:.60} has an expression of a CI system; use an environment "
            "variable instead, such as CELL_PYTHON"
        )


def _require_names(settings: CiSettings, where: str) -> None:
    for key in ("built", "published"):
        if value := getattr(settings, key):
            require_value("channel", value, f"{where}: {key}")
    named = [("key", settings.key)] if settings.key else []
    named += [(f"secrets[{number}]", name) for number, name in enumerate(settings.secrets)]
    for key, name in named:
        if not _VARIABLE.fullmatch(name) or _VALUE.fullmatch(name) or _RESERVED.fullmatch(name):
            raise ProfileError(  # the name is not repeated, because it may be the secret itself
                f"{where}: {key}: not a name for a variable, such as SIGNING_KEY; "
                "put the value of a secret into the CI system's settings, never here"
            )
    for name in settings.environment:
        if not _VARIABLE.fullmatch(name) or _RESERVED.fullmatch(name):
            raise ProfileError(f"{where}: environment: {name!r:.40} is reserved")
        if _SECRET.search(name):
            raise ProfileError(
                f"{where}: environment: {name}: list the name in 'secrets' instead, without a value"
            )
    if not _CRON.fullmatch(settings.schedule):
        raise ProfileError(f"{where}: schedule: {settings.schedule!r:.40} is not five cron fields")
    if not _PYTHON.fullmatch(settings.python) or int(settings.python[2:]) < _OLDEST:
        raise ProfileError(f"{where}: python: {settings.python!r:.20} is not 3.{_OLDEST} or later")
