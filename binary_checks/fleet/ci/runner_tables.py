"""Reads ``[[runners]]``: on which machines of which CI system the stages of a cell run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import AXES, Cell
from binary_checks.profile.known import CellCondition, read_condition
from binary_checks.profile.toml_values import convert, reject_unknown

CPU, GPU = "cpu", "gpu"
HOSTED = ("github", "gitlab", "circleci", "azure")
"""The CI systems that have runners."""
RUNNER_KEYS: Mapping[str, Any] = {"when": str, "stage": str, **dict.fromkeys(HOSTED, object)}
"""That an entry may have."""
_VALUES = {"labels": tuple[str, ...], "image": str, "pool": str, "size": str}
_TEXT = re.compile(r"[A-Za-z0-9{][A-Za-z0-9 ._:/@{}+-]{0,199}")
_BRACES = re.compile(r"\{([^{}]*)\}")
JOB_PYTHON = "job_python"
_AXES = {name: name for name in (*AXES, JOB_PYTHON)}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsOn:
    """A machine as one CI system names it; what does not apply there is empty."""

    labels: tuple[str, ...] = ()  # GitHub's labels, GitLab's tags, Azure's demands
    image: str = ""  # of a container, or Azure's vmImage
    pool: str = ""  # Azure's pool, CircleCI's kind of machine (macos, windows, machine)
    size: str = ""  # CircleCI's resource_class


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerRule:
    """One entry: for which cells and which stage it holds, and the machine in each system."""

    condition: CellCondition
    stage: str  # cpu, gpu
    machines: Mapping[str, RunsOn]  # by system
    where: str  # it stands, for messages


def read_runners(rows: Iterable[tuple[dict[str, Any], str]]) -> Iterator[RunnerRule]:
    """The entries, in order. Raises ProfileError."""
    for row, where in rows:
        if "when" not in row:
            raise ProfileError(f"{where}: 'when' is missing")
        stage = convert(row.get("stage", CPU), str, f"{where}: stage")
        if stage not in (CPU, GPU):
            raise ProfileError(f"{where}: stage: {stage!r:.40} is not one of: {CPU}, {GPU}")
        when = convert(row["when"], str, f"{where}: when")
        if not {*HOSTED} & {*row}:
            raise ProfileError(f"{where}: it names no machine of: {', '.join(HOSTED)}")
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
    """A word for what the system asks for first, "" for none; labels; or a table of all of it."""
    if value == "":
        return RunsOn()
    if isinstance(value, str):
        value = {"labels": [value]} if system == "github" else {"image": value}
    elif isinstance(value, list):
        value = {"labels": value}
    table = convert(value, dict, where)
    reject_unknown(table, _VALUES, where, "key")
    said = {key: convert(table[key], _VALUES[key], f"{where}: {key}") for key in table}
    for key, found in said.items():
        for text in found if isinstance(found, tuple) else (found,):
            _demand_text(text, f"{where}: {key}")
    if not any(said.values()):
        raise ProfileError(f"{where}: it names no machine")
    return RunsOn(**said)


def _demand_text(text: str, where: str) -> None:
    if not _TEXT.fullmatch(text):
        raise ProfileError(f"{where}: {text!r:.60} is not the name of a machine or an image")
    reject_unknown(_BRACES.findall(text), _AXES, where, "axis")
    if {"{", "}"} & set(_BRACES.sub("", text)):
        raise ProfileError(f"{where}: {text!r:.60} has a brace without its other one")


def choose_machine(
    rules: Sequence[RunnerRule], cell: Cell, *, stage: str, system: str, python: str
) -> RunsOn | None:
    """The machine of the last entry that matches and names the system; None without one."""
    for rule in reversed(rules):
        if rule.stage == stage and system in rule.machines and rule.condition.meets(cell):
            machine = rule.machines[system]
            if machine == RunsOn():
                return None
            return _fill_machine(machine, cell, python, f"{rule.where}: {system}")
    return None


def _fill_machine(machine: RunsOn, cell: Cell, python: str, where: str) -> RunsOn:
    """The same with the cell's values for the axes in braces. Raises ProfileError."""

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
