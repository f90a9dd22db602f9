"""The commands that run planned cells: arguments with which `binary-checks` judges their files."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import family_of, is_shipped
from binary_checks.fleet.night import Cell, NightPlan, PlannedCell
from binary_checks.fleet.store import Store, frozen_name
from binary_checks.fleet.stored_nights import read_frozen
from binary_checks.model import RunResult
from binary_checks.options import Program
from binary_checks.profile import format_cell

# Finding interpreters on this host by version: on PATH, and where tools install them.

_PATIENCE = 20.0  # seconds that an interpreter may take to answer
_ASK = """
import sys, sysconfig
free = sysconfig.get_config_var("Py_GIL_DISABLED")
print("%d.%d" % sys.version_info[:2] + "t" * bool(free))
"""


@cache
def find_python(version: str) -> str:
    """Return the path of a working interpreter of a version (3.12, 3.13t), or ""."""
    for path in dict.fromkeys(_list_candidates(version)):
        if _ask_version(path) == version:
            return path
    return ""


def is_here(system: str, architecture: str) -> bool:
    """Return whether a cell has this host's system and architecture, by their names."""
    own = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    if own == "linux" and system.startswith("musl") is (platform.libc_ver()[0] == "glibc"):
        return False
    same = {"amd64": "x86_64", "aarch64": "arm64"}
    machine = platform.machine().lower()
    return family_of(system) == own and same.get(architecture, architecture) == same.get(
        machine, machine
    )


def _list_candidates(version: str) -> Iterator[str]:
    """Yield paths where an interpreter of the version may be.

    Not every path is an interpreter: the shim of a version manager, for example, may not start.
    """
    yield sys.executable
    name = f"python{version}"
    if found := shutil.which(name):
        yield found
    bare = version.rstrip("t")
    free = "+freethreaded" if version.endswith("t") else ""
    tag = f"cp{bare.replace('.', '')}"
    roots = (
        (os.environ.get("PYENV_ROOT") or "~/.pyenv", f"versions/{bare}*/bin/{name}"),
        ("~/.local/share/uv/python", f"cpython-{bare}.*{free}-*/bin/{name}"),
        ("/opt/python", f"{tag}-{tag}{version[len(bare) :]}/bin/python"),  # in manylinux's images
        (
            os.environ.get("RUNNER_TOOL_CACHE") or "/opt/hostedtoolcache",
            f"Python/{bare}.*/*/bin/{name}",
        ),
        (os.environ.get("LOCALAPPDATA") or "~", f"Programs/Python/Python{tag[2:]}*/python.exe"),
    )
    for root, pattern in roots:
        yield from sorted(map(str, Path(root).expanduser().glob(pattern)), reverse=True)


def _ask_version(path: str) -> str:
    """Return the version that an interpreter reports, or "" if it does not start."""
    try:
        ended = subprocess.run(
            [path, "-I", "-S", "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ""
    return ended.stdout.strip() if ended.returncode == 0 else ""


# A planned cell's command.

KNOWN = "known.toml"
_PROFILES = "profiles"
_REQUIRE = "--require"
_CROSSCHECK = "--crosscheck"


@cache
def has_libraries() -> bool:
    """Return whether this host has the libraries that read each object file a second time."""
    return all(map(find_spec, ("elftools", "lief", "macholib", "pefile")))


@dataclass(frozen=True, kw_only=True, slots=True)
class CellCommand:
    """A command with its inputs, to be run in a folder that contains only these inputs."""

    arguments: tuple[str, ...]  # of `binary-checks`
    inputs: Mapping[str, str]  # path in the folder -> name of an object in the store


def command_of(
    plan: NightPlan,
    planned: PlannedCell,
    *,
    find_python: Callable[[str], str] = find_python,
) -> CellCommand:
    """Return the command of a cell. Raises ProfileError if the plan has no file for it.

    The URL contains the hash from the plan: if an index serves other bytes, this is an error of the
    index (exit code 6), and not a verdict. A package of another system is only inspected, and the
    checks that would run it report why they did not run.
    """
    cell = planned.cell
    if not planned.url or not planned.sha256:
        raise ProfileError(f"{cell.id}: the plan has no file for it: {planned.reason}")
    inputs = dict(_list_inputs(plan, cell))
    options = options_of(
        cell,
        python=choose_python(cell, find_python, portable=planned.file_name.endswith("-any.whl")),
        profile=f"{_PROFILES}/{planned.profile}" if planned.profile else cell.profile,
        known=KNOWN if KNOWN in inputs else "",
    )
    # The list that was valid when the night was planned is valid for all cells, whenever they run.
    # A frozen profile may have known problems of its own for some cells.
    own = ("--cell", format_cell(cell)) if inputs else ()
    at = ("--known-at", plan.made) if KNOWN in inputs else own
    package = f"{planned.url}#sha256={planned.sha256}"
    second = (_CROSSCHECK,) if has_libraries() else ()
    return CellCommand(arguments=(package, *at, *options, *second), inputs=inputs)


def options_of(cell: Cell, *, python: Sequence[str], profile: str, known: str) -> tuple[str, ...]:
    """Return the options of `binary-checks` for a cell, both in a night and in CI."""
    options: list[str] = []
    if cell.place:
        options += ["--place", cell.place]
    elif cell.kind == "wheel":  # a conda package names its Python, the others need none
        options += python
    if profile:
        options += ["--profile", profile]
    if known:
        options += ["--known-problems", known]
    own = _name_options(cell.options)
    if known or any(each.startswith("--known-problems") for each in own):
        options += ["--cell", format_cell(cell)]  # as these may apply only to some cells
    return (*options, *own)


def _name_options(options: Sequence[str]) -> tuple[str, ...]:
    """Return a cell's options with the names that the command's help uses.

    A cells file may also use pytest's longer names of these options.
    """
    return tuple(map(Program.COMMAND.name_options, options))


def options_of_gpu(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options of the GPU stage, which runs and requires the family ``gpu`` only."""
    kept: list[str] = []
    following = iter(_name_options(options))
    for option in following:
        if option in ("-m", _REQUIRE):
            next(following, "")
        elif not option.startswith(("-m", f"{_REQUIRE}=", _CROSSCHECK)):
            kept.append(option)
    # without --require, a pass could mean that there was no GPU
    return (*kept, "-m", "gpu", _REQUIRE, "gpu")


def _list_inputs(plan: NightPlan, cell: Cell) -> Iterator[tuple[str, str]]:
    if plan.known_sha256:
        yield KNOWN, frozen_name(plan.night, plan.known_sha256)
    if cell.profile and not is_shipped(cell.profile):
        # all of them, because any profile may extend another
        for path, digest in plan.profiles.items():
            yield f"{_PROFILES}/{path}", frozen_name(plan.night, digest)


def choose_python(cell: Cell, find_python: Callable[[str], str], *, portable: bool) -> list[str]:
    """Return the options for the cell's Python; --static if this host does not have it.

    A wheel for any system (``portable``) would run here as well, but that says nothing about the
    cell's system.
    """
    if cell.place or cell.kind != "wheel":  # the cell runs elsewhere, or needs no interpreter
        return []
    own = {option.partition("=")[0] for option in _name_options(cell.options)}
    if {"--python", "--static"} & own:
        return []
    if cell.system and not is_here(cell.system, cell.architecture):
        return ["--static"] if portable else []
    if not cell.python:
        return []
    python = find_python(cell.python)
    return ["--python", python] if python else ["--static"]


def fetch_inputs(store: Store, command: CellCommand, folder: Path) -> None:
    """Copy the command's inputs from the store into the folder. Raises StoreError."""
    for name, stored in command.inputs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read_frozen(store, stored))


# The command that repeats a cell on another computer, with the same bytes.

_IMAGE = "image:"


def rerun_command(
    plan: NightPlan, planned: PlannedCell, store: str, result: RunResult | None = None
) -> str:
    """Return the command for a shell, or "" if the plan has no file for the cell.

    If the ``result`` of the night's run names the image that it ran in, the command uses exactly
    that image. A cell with frozen files is repeated by `nightly rerun`, which fetches from the
    store the profile, the profiles that it extends, and the known problems. Other cells do not need
    the store.
    """
    if not planned.url or not planned.sha256:
        return ""
    place = planned.cell.place
    pinned = replace(planned.cell, place=pin_place(place, result))
    command = command_of(
        plan, replace(planned, cell=pinned), find_python=lambda version: f"python{version}"
    )
    if not command.inputs:
        return shlex.join(("binary-checks", *command.arguments))
    at = ["--date", plan.night, "--store", store]
    if pinned.place != place:
        at += ["--place", pinned.place]
    return shlex.join(("binary-checks", "nightly", "rerun", planned.cell.id, *at))


def pin_place(place: str, result: RunResult | None) -> str:
    """Return the place; for an image, with the digest that the result states, if any."""
    images = result.packages[0].roots if result and result.packages else ()
    pins = len(images) == 1 and place.startswith(_IMAGE)
    return f"{_IMAGE}{images[0]}" if pins else place
