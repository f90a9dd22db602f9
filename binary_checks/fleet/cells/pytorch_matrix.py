"""Reads PyTorch's build matrix: the JSON of its generator, or the MATRIX_* variables of one job."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.axis_values import demand_consistent, demand_value, family_of
from binary_checks.fleet.cells.cells_file import MOST_CELLS
from binary_checks.fleet.cells.foreign_matrix import ForeignMatrix, describe_left_out, merge_cells
from binary_checks.fleet.cells.matrix import CellChannel

_KINDS = {"wheel": "wheel", "manywheel": "wheel", "conda": "conda", "libtorch": "libtorch"}
_ABIS = {"cxx11-abi": "cxx11", "pre-cxx11": "pre-cxx11"}
_PYTHON = re.compile(r"(3\.\d{1,2})(?:\.\d{1,3})?(t?)")  # macOS has 3.10.19
_GPU_RUNNER = re.compile(r"gpu|nvidia|rocm|(?<![a-z0-9])g[3-9][a-z]*\.")
_URL = re.compile(r"https?://[A-Za-z0-9._~:/%+,=@!-]+")
_INDEX = re.compile(rf"--(?:extra-)?index-url[ =]({_URL.pattern})")
_CONDA = re.compile(r"(?:^| )(?:-c|--channel)[ =]([A-Za-z0-9._-]+)")
_VARIABLE = re.compile(r"MATRIX_([A-Z0-9_]+)=(.*)")
_TEXTS = (
    *("package_type", "python_version", "desired_cuda", "gpu_arch_type", "libtorch_variant"),
    *("libtorch_config", "devtoolset", "channel", "validation_runner", "installation"),
)


@dataclass(frozen=True, slots=True)
class _Build:
    """One entry: its cell, without a channel yet, and where its package is published."""

    cell: Cell
    channel: str  # nightly, test, release; "" where it names none
    address: str  # a template of an index, of a file, or the name of a conda channel

    @property
    def published(self) -> tuple[str, str, str]:
        """What is a channel of its own."""
        return self.channel, self.cell.kind, self.address


def read_pytorch(text: str, named: str, project: str, host: str) -> ForeignMatrix:
    """The cells of a project for such a matrix; ``host`` is that of entries that name none.

    Raises ProfileError. What no cell stands for is left out with a note.
    """
    builds: list[_Build] = []
    left: dict[str, list[str]] = defaultdict(list)
    for number, (entry, where) in enumerate(_list_entries(text, named)):
        if number >= MOST_CELLS:
            raise ProfileError(f"{named}: more than {MOST_CELLS:,} entries")
        texts = _read_texts(entry, where)
        cell = _make_cell(texts, project, host, where)
        address = _find_address(texts, cell)
        if reason := _find_reason(texts, cell, address):
            left[reason].append(texts.get("build_name") or where.removeprefix(f"{named}: "))
        else:
            builds.append(_Build(cell, texts["channel"], address))
    if not builds:
        raise ProfileError(f"{named}: no entry in it that is a cell")
    return _join(builds, left)


def _list_entries(text: str, named: str) -> Iterator[tuple[object, str]]:
    bare = text.strip()
    if bare[:1] not in ("{", "["):
        found = [_VARIABLE.fullmatch(line.strip()) for line in bare.splitlines()]
        variables = {each[1].lower(): each[2].strip("\"'") for each in found if each}
        if not variables:
            raise ProfileError(f"{named}: neither JSON nor lines as MATRIX_PYTHON_VERSION=3.12")
        yield variables, f"{named}: MATRIX_*"
        return
    try:
        said = json.loads(bare)
    except (ValueError, RecursionError):
        raise ProfileError(f"{named}: not JSON") from None
    entries = said.get("include", [said]) if isinstance(said, dict) else said
    if not isinstance(entries, list):
        raise ProfileError(f"{named}: include: not a list")
    yield from ((entry, f"{named}: include[{number}]") for number, entry in enumerate(entries))


def _read_texts(entry: object, where: str) -> dict[str, str]:
    """The values that say something of a cell. Raises ProfileError for one that is no text."""
    if not isinstance(entry, dict):
        raise ProfileError(f"{where}: not an object")
    found = {}
    for key in (*_TEXTS, "build_name"):
        value = entry.get(key)
        if not isinstance(value, str) and value is not None:
            raise ProfileError(f"{where}: {key}: {value!r:.40} is not a string")
        found[key] = value or ""
    return found


def _make_cell(texts: Mapping[str, str], project: str, host: str, where: str) -> Cell:
    said = texts["package_type"] or "wheel"
    if said not in _KINDS:
        raise ProfileError(
            f"{where}: package_type: {said!r:.40} is not one of: {', '.join(_KINDS)}"
        )
    kind = _KINDS[said]
    system, architecture = _find_host(texts, host, where)
    version = texts["python_version"]
    python = _PYTHON.fullmatch(version)
    if (python is None) is (kind != "libtorch"):
        raise ProfileError(f"{where}: python_version: {version!r:.40} does not go with {said}")
    cell = Cell(
        id="",
        project=project,
        kind=kind,
        libtorch=texts["libtorch_variant"] if kind == "libtorch" else "",
        system=system,
        architecture=architecture,
        python="".join(python.groups()) if python else "",
        variant=texts["desired_cuda"],
        cxx_abi=_ABIS.get(texts["devtoolset"], ""),
        package=project,
        gpu=bool(_GPU_RUNNER.search(texts["validation_runner"].lower())),
    )
    for axis, key in (("variant", "desired_cuda"), ("libtorch", "libtorch_variant")):
        if value := getattr(cell, axis):
            demand_value(axis, value, f"{where}: {key}")
    if texts["channel"]:
        demand_value("channel", texts["channel"], f"{where}: channel")
    demand_consistent(cell, where)
    return cell


def _find_host(texts: Mapping[str, str], host: str, where: str) -> tuple[str, str]:
    """System and architecture: by the runner, else by what is built on Linux alone."""
    runner, built = texts["validation_runner"].lower(), texts["gpu_arch_type"].partition("-")[2]
    arm = bool(re.search("arm64|aarch64", runner))
    if runner.startswith("windows"):
        return "windows", "arm64" if arm else "amd64"
    if runner.startswith("macos"):
        return "macos", "x86_64" if re.search(r"x86|intel|macos-1[0-3]", runner) else "arm64"
    if runner.startswith("linux"):
        return "linux", "aarch64" if arm else "s390x" if "s390x" in runner else "x86_64"
    if built in ("aarch64", "s390x"):
        return "linux", built
    if texts["package_type"] == "manywheel":
        return "linux", "x86_64"
    if not host:
        raise ProfileError(
            f"{where}: no validation_runner says of which system it is; name it with --system"
        )
    system, _, architecture = host.partition("-")
    return system, architecture


def _find_address(texts: Mapping[str, str], cell: Cell) -> str:
    """A template of where its package is published, out of how it is installed; "" for none."""
    said = texts["installation"][:2_000]
    if cell.kind == "conda":
        channels = [each for each in _CONDA.findall(said) if each != "nvidia"]
        return channels[0] if channels else ""
    found = _URL.fullmatch(said) if cell.kind == "libtorch" else _INDEX.search(said)
    if found is None:
        return ""
    url: str = found[found.re.groups]
    for axis in ("variant", "libtorch"):
        if value := getattr(cell, axis):
            url = re.sub(rf"(?<![a-z0-9]){re.escape(value)}(?![a-z0-9])", f"{{{axis}}}", url)
    return url


def _find_reason(texts: Mapping[str, str], cell: Cell, address: str) -> str:
    """Why no cell stands for it; "" where one does."""
    if texts["libtorch_config"] == "debug":
        return "debug: it has the values of the release build"
    if cell.kind != "wheel" and not (address and texts["channel"]):
        return f"{cell.kind}: no channel and installation say where it is published"
    return ""


def _join(builds: Sequence[_Build], left: Mapping[str, Sequence[str]]) -> ForeignMatrix:
    """The cells of the builds, each address of which is a channel."""
    channels: dict[str, CellChannel] = {}
    names: dict[tuple[str, str, str], str] = {}
    for build in sorted(builds, key=lambda each: not each.address):  # addresses have the name
        if build.channel and build.published not in names:
            channel = _make_channel(build, channels)
            names[build.published] = channel.name
            channels[channel.name] = channel
    cells = [
        replace(build.cell, channel=names[build.published] if build.channel else "")
        for build in builds
    ]
    return ForeignMatrix(cells=merge_cells(cells), channels=channels, notes=describe_left_out(left))


def _make_channel(build: _Build, taken: Mapping[str, object]) -> CellChannel:
    name, before = _name_channel(build, taken), build.channel != "release"
    if build.cell.kind == "conda":
        return CellChannel(name=name, prereleases=before, conda=build.address)
    if build.cell.kind == "libtorch":
        return CellChannel(name=name, prereleases=before, url=build.address)
    return CellChannel(name=name, prereleases=before, index=build.address)


def _name_channel(build: _Build, taken: Mapping[str, object]) -> str:
    """Its own name; one with the kind, the system or a number where others have another address."""
    kind = build.cell.kind
    base = build.channel if kind == "wheel" else f"{build.channel}-{kind}"
    by_system = f"{base}-{family_of(build.cell.system)}"
    if kind == "wheel" and not build.address:
        by_system = f"{base}-pypi"
    if kind != "libtorch" and base not in taken:
        return base
    number = 2
    name = by_system
    while name in taken:
        name, number = f"{by_system}-{number}", number + 1
    return name
