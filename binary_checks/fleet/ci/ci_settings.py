"""Read ``[ci]`` and ``[[runners]]``: the stages that CI runs, and its machines."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from binary_checks import __version__
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import (
    PIPS_INDEX,
    Matrix,
    fill,
    read_rows,
    require_public,
    require_template,
    require_value,
)
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
HOSTED = ("github", "circleci")
"""The CI systems that have runners."""
_RUNNER_KEYS: Mapping[str, Any] = {
    "when": str,
    "stage": typing.Literal["cpu", "gpu"],
    **dict.fromkeys(HOSTED, object),
}
_MACHINE_KEYS = {"labels": tuple[str, ...], "image": str, "pool": str, "size": str}
_MACHINE = re.compile(r"[A-Za-z0-9{][A-Za-z0-9 ._:/@{}+-]{0,199}")
_AXES = dict.fromkeys((*AXES, "job_python"))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsOn:
    """A machine as one CI system names it; fields that this system does not have are empty."""

    labels: tuple[str, ...] = ()  # GitHub's
    image: str = ""  # of a container or a machine
    pool: str = ""  # CircleCI's kind of machine: macos, windows, machine
    size: str = ""  # CircleCI's resource_class


NOWHERE = RunsOn()
"""Stands for a CI system that has no machine for a cell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerRule:
    """One entry: the cells and the stage to which it applies, and the machine in each CI system."""

    condition: CellCondition
    stage: str  # cpu, gpu
    machines: Mapping[str, RunsOn]  # CI system -> machine
    where: str  # location of the entry, for messages


def _read_runners(rows: Iterable[tuple[dict[str, Any], str]]) -> Iterator[RunnerRule]:
    """Yield the entries in order. Raises ProfileError."""
    for row, where in rows:
        named = [system for system in HOSTED if system in row]
        if not named:
            raise ProfileError(f"{where}: name a machine for one of: {', '.join(HOSTED)}")
        yield RunnerRule(
            condition=read_condition(row["when"], f"{where}: when"),
            stage=row.get("stage", CPU),
            machines={each: _read_machine(each, row[each], f"{where}: {each}") for each in named},
            where=where,
        )


def _read_machine(system: str, value: object, where: str) -> RunsOn:
    """Read a machine: a name (label or image), "" for none, a list of labels, or a table."""
    if value == "":
        return NOWHERE
    if isinstance(value, str):
        value = {"labels": [value]} if system == "github" else {"image": value}
    elif isinstance(value, list):
        value = {"labels": value}
    values = convert_table(convert(value, dict, where), _MACHINE_KEYS, where)
    for key, found in values.items():
        for text in found if isinstance(found, tuple) else (found,):
            _require_machine(text, f"{where}: {key}")
    if not any(values.values()):
        raise ProfileError(f"{where}: the entry names no machine")
    return RunsOn(**values)


def _require_machine(text: str, where: str) -> None:
    if not _MACHINE.fullmatch(text):
        raise ProfileError(f"{where}: {text!r:.60} is not the name of a machine or an image")
    require_template(text, _AXES, where)


# ``[ci]``: the files to generate, how a cell is built, and where its packages go.

System = typing.Literal["github", "circleci", "tox", "docs"]
SYSTEMS: tuple[System, ...] = typing.get_args(System)
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

    systems: tuple[System, ...] = ()  # the files to generate
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
    deployment: str = ""  # GitHub's environment, or CircleCI's context, that has the secrets
    branch: str = "main"
    schedule: str = "17 3 * * *"  # of the night, in UTC
    smoke_cells: int = 20  # cells of the night in one job
    runners: tuple[RunnerRule, ...] = ()

    @property
    def publish_secrets(self) -> tuple[str, ...]:
        """Names of all secrets that publishing needs."""
        return (*self.secrets, *filter(None, (self.key,)))

    def secrets_of(self, stage: str) -> tuple[str, ...]:
        """Return the names of the secrets that a stage needs; "" stands for installing."""
        if stage == "publish":
            return self.publish_secrets
        return () if stage in ("", "build", "test", "gpu") else self.secrets

    def choose_machine(self, cell: Cell, *, stage: str, system: str, python: str) -> RunsOn:
        """Return the machine of the last matching entry that names the system, or NOWHERE.

        The values of the cell replace {axis}. Raises ProfileError if it has none.
        """
        for rule in reversed(self.runners):
            if rule.stage == stage and system in rule.machines and rule.condition.meets(cell):
                return _fill(rule.machines[system], cell, python, f"{rule.where}: {system}")
        return NOWHERE


def _fill(machine: RunsOn, cell: Cell, python: str, where: str) -> RunsOn:
    def of_cell(template: str) -> str:
        return fill(template, cell, where, job_python=python)

    return RunsOn(
        labels=tuple(map(of_cell, machine.labels)),
        image=of_cell(machine.image),
        pool=of_cell(machine.pool),
        size=of_cell(machine.size),
    )


_HINTS = typing.get_type_hints(CiSettings)
_TYPES = {key: kind for key, kind in _HINTS.items() if key != "runners"}


def read_ci(matrix: Matrix) -> CiSettings:
    """Return the CI settings in a matrix's file. Raises ProfileError."""
    name = matrix.source
    tables = parse_toml(matrix.content, name)
    where = f"{name}: ci"
    if "ci" not in tables:
        raise ProfileError(f"{name}: it has no [ci], which says what CI runs")
    table = convert(tables["ci"], dict, where)
    reject_unknown(table, _TYPES, where, "key")
    ours = parse_toml(files(__package__).joinpath(_SHIPPED).read_bytes(), _SHIPPED)
    runners = (
        *read_rows(ours, _SHIPPED, "runners", _RUNNER_KEYS),
        *read_rows(tables, name, "runners", _RUNNER_KEYS, ("when",)),
    )
    settings = CiSettings(
        **{
            key: _read(value, _TYPES[key], f"{locate(where, key)}: {key}")
            for key, value in table.items()
        },
        runners=tuple(_read_runners(runners)),
    )
    _require_texts(settings, where)
    _require_names(settings, where)
    _require_consistent(settings, where)
    source = matrix.sources.get(settings.published, PIPS_INDEX)
    if settings.published and not settings.policy and not source.gate:
        raise ProfileError(
            f"{where}: 'published' is set, but there is no policy: give policy = FILE, or "
            f"[sources.{settings.published}] with gate = FILE"
        )
    return settings


def _read(value: Any, kind: Any, where: str) -> Any:
    """Convert a value; a single text is accepted where a list of texts is expected."""
    if isinstance(value, str) and typing.get_origin(kind) is tuple:
        value = [value]
    return convert(value, kind, where)


def _require_texts(settings: CiSettings, where: str) -> None:
    """Check texts that become part of scripts: no control characters, no CI expressions."""
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
    for key in ("store", "policy", "branch", "deployment"):
        lines.append((key, getattr(settings, key)))
    lines += [(f"environment.{key}", each) for key, each in settings.environment.items()]
    for key, text in lines:
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


def _require_consistent(settings: CiSettings, where: str) -> None:
    """Raise ProfileError for impossible values, and if a setting needs one that is missing."""
    for key, limit in (("build_timeout", 86_400), ("smoke_cells", 1_000)):
        if not 0 < getattr(settings, key) <= limit:
            raise ProfileError(f"{where}: {key}: {getattr(settings, key):g} is not in 1..{limit:,}")
    for has, needs in (
        ("built", "store"),
        ("published", "built"),
        ("key", "store"),
        ("built", "build"),
    ):
        if getattr(settings, has) and not getattr(settings, needs):
            raise ProfileError(
                f"{where}: {has!r} is set, but {needs!r}, which it needs, is missing"
            )
    if settings.built and settings.built == settings.published:
        raise ProfileError(
            f"{where}: built and published are one channel, {settings.built!r:.40}; name a "
            "separate channel for builds; the policy decides which of them are published"
        )


def require_install(settings: CiSettings, source: str) -> None:
    """Raise ProfileError if jobs install the tool and the settings do not state its source.

    There is no default, because anyone could register an unused name on an index.
    """
    hosted = {*settings.systems} & {*HOSTED} and (settings.build or settings.store)
    if settings.install or not (hosted or "tox" in settings.systems):
        return
    wheel = f"tools/binary_checks-{__version__}-py3-none-any.whl[fleet,sign]"
    raise ProfileError(
        f"{source}: ci: 'install' is missing: state which binary-checks the jobs install. Write "
        f'install = "./{wheel}" for a wheel in your repository, "binary-checks[fleet,sign] @ '
        'https://…/….whl#sha256=…" for a published one, or a requirement of an index that you trust'
    )
