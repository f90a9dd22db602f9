"""Reads ``[ci]``: what is generated, how a cell is built, and where what was built goes."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from binary_checks import __version__
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.axis_values import demand_value
from binary_checks.fleet.cells.matrix import PIPS_INDEX, Matrix
from binary_checks.fleet.cells.source_tables import demand_public
from binary_checks.fleet.cells.table_rows import read_rows
from binary_checks.fleet.ci.action_pins import ActionPin, read_pins
from binary_checks.fleet.ci.own_jobs import JOB_KEYS, OwnJob, OwnWorkflow, read_jobs, read_workflows
from binary_checks.fleet.ci.runner_tables import RUNNER_KEYS, RunnerRule, read_runners
from binary_checks.profile.toml_values import convert, parse_toml, reject_unknown

SYSTEMS = ("github", "gitlab", "circleci", "azure", "tox", "docs")
"""What can be generated."""
_SHIPPED = "shipped.toml"
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
_SECRET = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|KEY")
_RESERVED = re.compile(r"CELL(?:_.*)?|GITHUB_.*|CI|PATH|HOME|.*_CHANNEL|BINARY_CHECKS_STORE")
_VALUE = re.compile(r"(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{16}")  # an id that Amazon gave out
_CRON = re.compile(r"[0-9*/,-]+(?: [0-9*/,-]+){4}")
_PYTHON = re.compile(r"3\.\d{1,2}")
_OLDEST = 11  # of the tool with everything that nights and artifacts need
_PINNED = re.compile(r"[#&]sha256=[0-9a-f]{64}(?:&|$)|\.git@[0-9a-f]{40}(?:#|$)")
"""How a URL says which bytes, or which commit, are meant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CiSettings:
    """The table ``[ci]`` with ``[[runners]]``, and what is shipped where they say nothing."""

    systems: tuple[str, ...]  # github, gitlab, circleci, azure, tox, docs
    build: tuple[str, ...] = ()  # lines of a shell that put a cell's files into dist/; () for none
    build_timeout: float = 3600.0  # seconds
    install: tuple[str, ...] = ()  # requirements of pip; () where no job installs the tool
    python: str = "3.13"  # that the tool runs on where a cell names none
    store: str = ""  # s3://bucket/prefix, or a folder that all runners share
    built: str = ""  # the channel into which everything goes that was built
    published: str = ""  # the channel into which the policy lets it go
    policy: str = ""  # a file; "" for the gate of the published channel in the matrix
    key: str = ""  # the name of the variable that has the private key, in PEM
    secrets: tuple[str, ...] = ()  # names of variables that the store's credentials are in
    environment: Mapping[str, str] = field(default_factory=dict)  # of every job; nothing secret
    deployment: str = ""  # GitHub's environment that has the secrets
    branch: str = "main"
    schedule: str = "17 3 * * *"  # of the night, in UTC
    smoke_cells: int = 20  # of a night, in one job
    runners: tuple[RunnerRule, ...] = ()
    actions: Mapping[str, ActionPin] = field(default_factory=dict)
    workflows: Mapping[str, OwnWorkflow] = field(default_factory=dict)  # of jobs beside the cells
    jobs: tuple[OwnJob, ...] = ()

    @property
    def publish_secrets(self) -> tuple[str, ...]:
        """All secrets that publishing reads."""
        return (*self.secrets, *filter(None, (self.key,)))


_READ_APART = ("runners", "actions", "workflows", "jobs")
_HINTS = typing.get_type_hints(CiSettings)
_TYPES = {key: kind for key, kind in _HINTS.items() if key not in _READ_APART}
_KEYS = {**_TYPES, "actions": dict, "workflows": dict, "jobs": list}


def has_settings(matrix: Matrix) -> bool:
    """Whether the file of a matrix has a table ``[ci]``."""
    return "ci" in parse_toml(matrix.content, matrix.source)


def read_ci(matrix: Matrix) -> CiSettings:
    """What the file of a matrix says of CI. Raises ProfileError."""
    name = matrix.source
    tables = parse_toml(matrix.content, name)
    where = f"{name}: ci"
    if not has_settings(matrix):
        raise ProfileError(f"{name}: it has no [ci]; `binary-checks ci init` appends one")
    table = convert(tables["ci"], dict, where)
    reject_unknown(table, _KEYS, where, "key")
    said = {
        key: _read(table[key], _TYPES[key], f"{where}: {key}") for key in _TYPES if key in table
    }
    if "systems" not in said:
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
        **said,
        runners=(*read_runners(before), *read_runners(rows)),
        actions=actions,
        workflows=workflows,
        jobs=tuple(read_jobs(jobs, workflows, actions)),
    )
    _demand_consistent(settings, where)
    source = matrix.sources.get(settings.published, PIPS_INDEX)
    if settings.published and not settings.policy and not source.gate:
        raise ProfileError(
            f"{where}: published without policy: give policy = FILE, or "
            f"[sources.{settings.published}] with gate = FILE"
        )
    return settings


def demand_install(settings: CiSettings, source: str) -> None:
    """Raise ProfileError where jobs install the tool and nothing states what that is.

    There is no default: a name that nobody holds on an index is anybody's to register.
    """
    listing = any(job.condition for job in settings.jobs)
    hosted = {*settings.systems} - {"tox", "docs"} and (settings.build or settings.store or listing)
    if settings.install or not (hosted or "tox" in settings.systems):
        return
    wheel = f"tools/binary_checks-{__version__}-py3-none-any.whl[fleet,sign]"
    raise ProfileError(
        f"{source}: ci: 'install' is missing: which binary-checks the jobs install. Write "
        f'install = "./{wheel}" for a wheel in your repository, "binary-checks[fleet,sign] @ '
        'https://…/….whl#sha256=…" for a published one, or a requirement of an index that you trust'
    )


def _read(value: Any, kind: Any, where: str) -> Any:
    """One value; a text where there may be several is one of them."""
    if isinstance(value, str) and kind == tuple[str, ...]:
        value = [value]
    return convert(value, kind, where)


def _demand_consistent(settings: CiSettings, where: str) -> None:
    """Raise ProfileError for a value that cannot be, and for one that lacks another."""
    known = ", ".join(SYSTEMS)
    if not settings.systems:
        raise ProfileError(f"{where}: systems: it names none of: {known}")
    for system in settings.systems:
        if system not in SYSTEMS:
            raise ProfileError(f"{where}: systems: {system!r:.40} is not one of: {known}")
    _demand_texts(settings, where)
    _demand_names(settings, where)
    for key, limit in (("build_timeout", 86_400), ("smoke_cells", 1_000)):
        if not 0 < getattr(settings, key) <= limit:
            raise ProfileError(f"{where}: {key}: {getattr(settings, key):g} is not in 1..{limit:,}")
    if settings.jobs and "github" not in settings.systems:
        raise ProfileError(f"{where}: jobs: only github has them, and it is not among 'systems'")
    lacking = [
        ("built", "store"),
        ("published", "built"),
        ("key", "store"),
        ("built", "build"),
    ]
    for has, needs in lacking:
        if getattr(settings, has) and not getattr(settings, needs):
            raise ProfileError(f"{where}: {has} without {needs}, which it needs")
    if settings.built and settings.built == settings.published:
        raise ProfileError(
            f"{where}: built and published are one channel, {settings.built!r:.40}; what is built "
            "goes into a channel of its own, and the policy decides what is published"
        )


def _demand_texts(settings: CiSettings, where: str) -> None:
    """Hold what comes into scripts: lines without control characters and other people's braces."""
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
                f"{where}: install: {text!r:.120} may become other bytes, in jobs that hold "
                "secrets; append #sha256=HASH of the wheel, or name a git repository as .git@COMMIT"
            )
    listed += [
        *lines,
        *((f"environment.{key}", each) for key, each in settings.environment.items()),
    ]
    for key, text in listed:
        demand_text(text, f"{where}: {key}")
    if set("*?[") & {*settings.branch}:
        raise ProfileError(
            f"{where}: branch: {settings.branch!r:.60} is a pattern; name one branch"
        )
    demand_public(settings.store, f"{where}: store")
    for key in ("policy", "store"):
        if getattr(settings, key).startswith("-"):
            raise ProfileError(f"{where}: {key}: it looks like an option")


def demand_text(text: str, where: str) -> None:
    """Raise ProfileError for what would not be the same text in the files of all CI systems."""
    if not text.isprintable():
        raise ProfileError(f"{where}: {text!r:.60} is not one line of printable text")
    if "${{" in text or "<<" in text:
        raise ProfileError(
            f"{where}: {text!r:.60} has an expression of a CI system; CELL_PYTHON and the like are "
            "variables of the environment"
        )


def _demand_names(settings: CiSettings, where: str) -> None:
    for key in ("built", "published"):
        if value := getattr(settings, key):
            demand_value("channel", value, f"{where}: {key}")
    named = [("key", settings.key)] if settings.key else []
    named += [(f"secrets[{number}]", name) for number, name in enumerate(settings.secrets)]
    for key, name in named:
        if not _VARIABLE.fullmatch(name) or _VALUE.fullmatch(name) or _RESERVED.fullmatch(name):
            raise ProfileError(  # without it: it may be the secret itself
                f"{where}: {key}: not the name of a variable of yours, as SIGNING_KEY is; "
                "the value of a secret belongs in the settings of the CI system, never here"
            )
    for name in settings.environment:
        if not _VARIABLE.fullmatch(name) or _RESERVED.fullmatch(name):
            raise ProfileError(f"{where}: environment: {name!r:.40} is not yours to set")
        if _SECRET.search(name):
            raise ProfileError(f"{where}: environment: {name}: name it in 'secrets', without value")
    if not _CRON.fullmatch(settings.schedule):
        raise ProfileError(f"{where}: schedule: {settings.schedule!r:.40} is not five cron fields")
    if not _PYTHON.fullmatch(settings.python) or int(settings.python[2:]) < _OLDEST:
        raise ProfileError(f"{where}: python: {settings.python!r:.20} is not 3.{_OLDEST} or later")
