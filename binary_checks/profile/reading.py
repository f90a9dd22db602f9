"""What a project expects of its packages: a TOML file in, a Profile out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from binary_checks.declaring import Check, Gatherer, Option
from binary_checks.errors import ProfileError
from binary_checks.model import Level
from binary_checks.model.requests import DeviceCodeRequest, GpuRequest, Request
from binary_checks.profile.cell_conditions import CellAxes
from binary_checks.profile.known import KnownProblem, read_known_problems
from binary_checks.profile.levels import (
    ByPath,
    asks,
    choose,
    merge_levels,
    read_levels,
    switches_off,
)
from binary_checks.profile.probe_tables import (
    find_requests,
    read_requests,
    read_sources,
)
from binary_checks.profile.toml_values import convert, parse_toml, read_toml, reject_unknown

_LARGEST_FACTOR = 1024
UNJUDGED = FAIL, ACCEPT = "fail", "accept"
_ROOTS = (".git", ".hg", ".jj", ".svn")
"""What lies in the uppermost folder of a repository: a profile above it is somebody else's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """What a project expects; the default expects nothing in particular."""

    source: str = "default"  # how the header names it
    checks: tuple[Path, ...] = ()  # Python files with checks of the project's own
    enable: frozenset[str] = frozenset()  # ids of checks that are off by default
    disable: frozenset[str] = frozenset()  # ids of checks that must not run
    objects: int | None = None  # at least so many object files
    unjudged: str = FAIL  # whether a package passes none of whose native code can be judged
    system_libraries: frozenset[str] = frozenset()  # what users have besides the policy's
    dll_directories: tuple[str, ...] = ()  # where the package's code has Windows look for DLLs
    timeout: float = 300.0  # seconds for one probe process
    limit_factor: int = 1  # so many times as much of an object file is read as usual
    network: bool = False  # whether probes in a sandbox reach the network
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by check id, by name
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # tables as they stand
    requests: Mapping[type[Request], Request] = field(default_factory=dict)  # what they come to
    levels: Mapping[str, ByPath] = field(default_factory=dict)  # by check id
    strict: bool = False  # whether every warning counts as an error
    known_problems: tuple[KnownProblem, ...] = ()
    cell: CellAxes | None = None  # that the run is said to be: some of these hold in some alone
    shipped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # probes, if it extends
    left_out: tuple[str, ...] = ()  # parts of it that are code, where nothing of it may run
    foreign: tuple[str, ...] = ()  # of its known problems the checks that there are elsewhere alone

    def selects(self, check: Check[Any]) -> bool:
        """Whether the check runs: on by default or asked for, and not disabled."""
        levels = self.levels.get(check.id, {})
        named = check.enabled or check.id in self.enable or check.id in self.options
        asked = named or asks(levels) or self._requests(check)
        return asked and check.id not in self.disable and not switches_off(levels)

    def _requests(self, check: Check[Any]) -> bool:
        """Whether something is asked of a probe that the check judges together with the answer."""
        return any(kind in self.requests for kinds in check.facts for kind in kinds)

    def level_of(self, check_id: str, path: str, own: Level) -> Level:
        """How much a problem with that path matters; ``own`` is what its check says of it."""
        level = choose(self.levels.get(check_id, {}), path) or own
        return Level.ERROR if self.strict and level is Level.WARNING else level

    def waivers(self, check_id: str, *names: str) -> tuple[KnownProblem, ...]:
        """The known problems of that check that hold here for a package of one of these names."""
        return tuple(
            known
            for known in self.known_problems
            if known.check == check_id
            and known.holds_in(self.cell)
            and any(map(known.selects, names))
        )


def load_profile(name_or_path: str) -> Profile:
    """Read a shipped profile by name, or a TOML file by path.

    A pyproject.toml is read from its table ``[tool.binary_checks]``. Raises ProfileError.
    """
    return _load(name_or_path, Path(), ())


def demand_thorough(profile: Profile) -> Profile:
    """The profile with its long steps on a GPU, and with all device code decompressed."""
    probes = dict(profile.probes)
    for request in (GpuRequest, DeviceCodeRequest):
        if request is DeviceCodeRequest or profile.probes.get(request.table, {}).get("module"):
            probes[request.table] = {**probes.get(request.table, {}), "thorough": True}
    return replace(profile, probes=probes)


def find_profile(folder: Path) -> Profile:
    """The nearest ``[tool.binary_checks]`` of a pyproject.toml, else the default profile.

    That is empty, and not read. A pyproject.toml without the table does not end the search, which
    goes on in the folders above up to a repository's root.
    """
    above, name = folder, "pyproject.toml"
    while True:
        path = folder / name
        if path.is_file() and _own_table(read_toml(path, f"profile {name}"), name) is not None:
            return _load(name, folder, ())
        if any((above / each).exists() for each in _ROOTS) or above == above.parent:
            return Profile()
        above, name = above.parent, f"../{name}"


def _load(name_or_path: str, folder: Path, above: tuple[Path, ...]) -> Profile:
    """Read a profile named in a profile of that folder, below the profiles that extend it."""
    if "/" not in name_or_path and not name_or_path.endswith(".toml"):
        profiles = (resources.files("binary_checks.profile") / "shipped").iterdir()
        shipped = next((each for each in profiles if each.name == f"{name_or_path}.toml"), None)
        if shipped is None:
            raise ProfileError(
                f"profile {name_or_path!r}: neither a shipped profile nor a .toml file"
            )
        profile = _profile(
            parse_toml(shipped.read_bytes(), f"profile {name_or_path}"), name_or_path, Path(), above
        )
        return replace(profile, shipped=profile.probes)
    path = folder / name_or_path
    if "\0" in name_or_path:
        raise ProfileError(f"profile {name_or_path}: not a path: it contains a NUL byte")
    if path.resolve() in above:
        raise ProfileError(f"profile {name_or_path}: extends itself")
    table = read_toml(path, f"profile {name_or_path}")
    if path.name == "pyproject.toml":
        table = _own_table(table, name_or_path) or {}
    return _profile(table, name_or_path, path.parent, (*above, path.resolve()))


def _own_table(pyproject: Mapping[str, Any], source: str) -> dict[str, Any] | None:
    """Its ``[tool.binary_checks]``; None where it has none."""
    tools = pyproject.get("tool", {})
    table = tools.get("binary_checks") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ProfileError(f"profile {source}: tool.binary_checks: not a table")
    return table


def _profile(
    table: Mapping[str, Any], source: str, folder: Path, above: tuple[Path, ...]
) -> Profile:
    """Turn a table into a Profile; paths in it are relative to folder."""
    kinds: dict[str, Any] = {
        "extends": str,
        "checks": tuple[str, ...],
        "enable": tuple[str, ...],
        "disable": tuple[str, ...],
        "objects": int,
        "unjudged": str,
        "system_libraries": tuple[str, ...],
        "dll_directories": tuple[str, ...],
        "timeout": float,
        "limit_factor": int,
        "network": bool,
        "options": dict,
        "levels": dict,
        "probes": dict,
        "known_problems": list,
    }
    reject_unknown(table, kinds, f"profile {source}", "key")
    values = {
        key: convert(value, kinds[key], f"profile {source}: {key}") for key, value in table.items()
    }
    if not 0 < values.get("timeout", 1) < 1e6:  # a wait has its limits, too
        raise ProfileError(
            f"profile {source}: timeout: {values['timeout']} is not between 0 and 1,000,000 seconds"
        )
    if not 1 <= values.get("limit_factor", 1) <= _LARGEST_FACTOR:
        raise ProfileError(f"profile {source}: limit_factor: not from 1 to {_LARGEST_FACTOR}")
    if (unjudged := values.get("unjudged", FAIL)) not in UNJUDGED:
        raise ProfileError(
            f"profile {source}: unjudged: {unjudged!r:.80} is neither {' nor '.join(UNJUDGED)}"
        )
    base = _load(values["extends"], folder, above) if "extends" in values else Profile()
    return Profile(
        source=source,
        checks=base.checks + tuple(folder / path for path in values.get("checks", ())),
        enable=base.enable | frozenset(values.get("enable", ())),
        disable=base.disable | frozenset(values.get("disable", ())),
        objects=values.get("objects", base.objects),
        unjudged=values.get("unjudged", base.unjudged),
        system_libraries=base.system_libraries | frozenset(values.get("system_libraries", ())),
        dll_directories=base.dll_directories + values.get("dll_directories", ()),
        timeout=values.get("timeout", base.timeout),
        limit_factor=values.get("limit_factor", base.limit_factor),
        network=values.get("network", base.network),
        options=_merge(base.options, values.get("options", {}), f"profile {source}: options"),
        levels=merge_levels(
            base.levels, read_levels(values.get("levels", {}), f"profile {source}: levels")
        ),
        probes=_merge(
            base.probes,
            read_sources(values.get("probes", {}), folder, f"profile {source}"),
            f"profile {source}: probes",
        ),
        shipped=base.shipped,
        known_problems=base.known_problems
        + read_known_problems(values.get("known_problems", []), f"profile {source}"),
    )


def _merge(
    base: Mapping[str, Mapping[str, Any]], own: Mapping[str, Any], where: str
) -> dict[str, Mapping[str, Any]]:
    for name, table in own.items():
        if not isinstance(table, dict):
            raise ProfileError(f"{where}.{name}: not a table")
    return {**base, **{name: _add(base.get(name, {}), table) for name, table in own.items()}}


def _add(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in both; a table adds to the table of the same name, everything else replaces."""
    tables = {name for name, value in base.items() if isinstance(value, dict)}
    both = {name for name, value in own.items() if isinstance(value, dict)} & tables
    return {**base, **own, **{name: {**base[name], **own[name]} for name in both}}


def validate(
    profile: Profile, checks: Iterable[Check[Any]], gatherers: Iterable[Gatherer[..., Any]] = ()
) -> Profile:
    """The profile with options as the checks declare them, and requests as their classes do.

    Raises ProfileError for a check, an option or a probe that does not exist, and for a wrong type;
    not for a check of a list that others share, who may have another version or their own checks.
    """
    by_id = {check.id: check for check in checks}
    where = f"profile {profile.source}"
    reject_unknown(dict.fromkeys(_named(profile)), by_id, where, "check")
    for known in profile.known_problems:
        if not known.is_shared:
            reject_unknown([known.check], by_id, known.listed or where, "check")
    options = {
        check_id: _convert_options(values, by_id[check_id].options, f"{where}: options.{check_id}")
        for check_id, values in profile.options.items()
    }
    requests = read_requests(profile.probes, find_requests((*by_id.values(), *gatherers)), where)
    foreign = sorted({each.check for each in profile.known_problems} - by_id.keys())
    return replace(profile, options=options, requests=requests, foreign=tuple(foreign))


def _named(profile: Profile) -> Iterator[str]:
    """The ids of checks that stand in it, but for its known problems."""
    yield from (*profile.enable, *profile.disable, *profile.options, *profile.levels)


def _convert_options(
    values: Mapping[str, Any], options: Mapping[str, Option], where: str
) -> dict[str, Any]:
    reject_unknown(values, options, where, "option")
    return {
        name: convert(value, options[name].annotation, f"{where}.{name}")
        for name, value in values.items()
    }
