"""A project's expectations of its packages: TOML files, read as profiles."""

from __future__ import annotations

import hashlib
import json
import os
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from binary_checks.declaring import Check, Gatherer
from binary_checks.errors import ProfileError
from binary_checks.files import read_named, walk_up
from binary_checks.model import (
    REQUESTS,
    Code,
    ConsumerRequest,
    DeviceCodeRequest,
    GpuRequest,
    InstallWay,
    Level,
    PlaceName,
    ProfileIdentity,
    Request,
    SnippetRequest,
)
from binary_checks.profile.installs import read_installs
from binary_checks.profile.known import LIST, CellAxes, KnownProblem, read_known_problems
from binary_checks.profile.toml_values import (
    convert,
    convert_table,
    locate,
    parse_toml,
    read_toml,
    reject_unknown,
)

# Levels: how severe problems are for a project, by check and by path.

ByPath = Mapping[str, Level]
"""Glob on a problem's path -> level, for one check; the first matching glob counts."""
EVERYWHERE = "*"


def read_levels(table: Mapping[str, Any], where: str) -> dict[str, ByPath]:
    """Read the table ``[levels]``: for each check a level, or a table of levels by path globs.

    Raises ProfileError.
    """
    found: dict[str, ByPath] = {}
    for check, value in table.items():
        levels = value if isinstance(value, dict) else {EVERYWHERE: value}
        place = f"{locate(where, check)}.{check}"
        found[check] = {
            glob: _read_level(level, f"{locate(place, glob)}.{glob}" if levels is value else place)
            for glob, level in levels.items()
        }
    return found


def _read_level(value: object, where: str) -> Level:
    if not isinstance(value, str):
        raise ProfileError(f"{where}: neither a level nor a table of levels by paths")
    reject_unknown([value], {level.value: level for level in Level}, where, "level")
    return Level(value)


def merge_levels(base: Mapping[str, ByPath], own: Mapping[str, ByPath]) -> dict[str, ByPath]:
    """Merge two tables; if globs of both match a path, the level in ``own`` counts."""
    # Globs of ``own`` come first, with their levels.
    both = {check: {**each, **base.get(check, {}), **each} for check, each in own.items()}
    return {**base, **both}


def asks(levels: ByPath) -> bool:
    """Return whether these levels make the check run."""
    return any(level is not Level.OFF for level in levels.values())


# Tables ``[probes.NAME]`` of a profile, read as requests for probes and checks.

_LONGEST_SOURCE = 1 << 20  # bytes of a translation unit


def find_requests(
    declared: Iterable[Check[Any] | Gatherer[..., Any]],
) -> dict[str, type[Request]]:
    """Map tables to classes of requests, of our own probes and in ``declared``."""
    asked = (kind for each in declared for kinds in each.facts for kind in kinds)
    found = (kind for kind in asked if isinstance(kind, type) and issubclass(kind, Request))
    return {kind.table: kind for kind in (*REQUESTS, *found)}


def read_sources(tables: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """Return the tables with each ``file`` replaced by its text; paths are relative to the folder.

    Raises ProfileError for a file that cannot be read.
    """
    table = tables.get(ConsumerRequest.table)
    units = table.get("units") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(units, dict):
        return dict(tables)
    place = f"{where}: probes.{ConsumerRequest.table}.units"
    read = {name: _read_source(unit, folder, f"{place}.{name}") for name, unit in units.items()}
    return {**tables, ConsumerRequest.table: {**table, "units": read}}


def _read_source(unit: Any, folder: Path, where: str) -> Any:
    if not isinstance(unit, dict) or "file" not in unit:
        return unit
    name: str = convert(unit["file"], str, f"{where}.file")
    if "source" in unit:
        raise ProfileError(f"{where}: it has both 'file' and 'source'")
    if os.path.lexists(folder / name) and not (folder / name).is_file():
        raise ProfileError(f"{where}.file: {name}: not a file")  # reading a pipe might never end
    try:
        content = read_named(folder / name, _LONGEST_SOURCE, f"{where}.file: {name}")
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ProfileError(f"{where}.file: {name}: not a text file") from None
    return {**{key: value for key, value in unit.items() if key != "file"}, "source": text}


def _read(kind: type[Any], table: Mapping[str, Any], where: str) -> Any:
    keys = _keys(kind)
    reject_unknown(table, keys, where, "key")
    values = {
        name: _convert(value, keys[name], f"{locate(where, name)}.{name}")
        for name, value in table.items()
    }
    for each in fields(kind):
        if each.default is MISSING and each.default_factory is MISSING and each.name not in table:
            raise ProfileError(f"{where}: it has no {each.name!r}")
    return kind(**values)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Convert a value; if it is a mapping to tables with fixed keys, convert each table."""
    row = next((each for each in typing.get_args(hint) if is_dataclass(each)), None)
    if row is None or not isinstance(row, type):
        return convert(value, hint, where)
    tables: Mapping[str, Any] = convert(value, Mapping[str, dict[str, Any]], where)
    return {
        name: _read(row, table, f"{locate(where, name)}.{name}") for name, table in tables.items()
    }


def list_code(table: str, known: Mapping[str, type[Request]]) -> frozenset[str] | None:
    """Return the keys of a table whose values are executed; None for an unknown table."""
    if table not in known:
        return None
    keys = _keys(known[table])
    return frozenset(name for name, hint in keys.items() if Code in _flatten(hint))


def _keys(kind: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _flatten(hint: Any) -> Iterator[Any]:
    yield hint
    own = _keys(hint).values() if isinstance(hint, type) and is_dataclass(hint) else ()
    for each in (*typing.get_args(hint), *own):
        yield from _flatten(each)


# Profiles: a project's expectations of its packages.

_LARGEST_FACTOR = 1024
UNJUDGED = FAIL, ACCEPT = "fail", "accept"


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """The expectations of a project; the default profile has no special ones."""

    source: str = "default"  # the profile's name in the report header
    checks: tuple[Path, ...] = ()  # Python files with the project's own checks
    kinds: tuple[Path, ...] = ()  # Python files with the project's own kinds of packages
    enable: frozenset[str] = frozenset()  # ids of checks that are off by default
    disable: frozenset[str] = frozenset()  # ids of checks that must not run
    objects: int | None = None  # minimum number of object files in the package
    unjudged: str = FAIL  # whether a package passes if none of its native code can be judged
    # libraries that users have in addition to the policy's
    system_libraries: frozenset[str] = frozenset()
    # further directories in which Windows looks for DLLs because the package's code adds them
    dll_directories: tuple[str, ...] = ()
    timeout: float = 300.0  # seconds for one probe process
    limit_factor: int = 1  # factor on the limits for reading an object file
    network: bool = False  # whether probes in a sandbox have network access
    # check id -> option -> value
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the tables, unconverted
    requests: Mapping[type[Request], Request] = field(default_factory=dict)  # the tables, converted
    levels: Mapping[str, ByPath] = field(default_factory=dict)  # by check id
    strict: bool = False  # whether every warning counts as an error
    known_problems: tuple[KnownProblem, ...] = ()
    installs: tuple[InstallWay, ...] = ()  # further ways to install the package, each a place
    # the axes of the run's cell, by which some known problems are limited
    cell: CellAxes | None = None
    # tables of the shipped profile that this profile extends
    shipped: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # parts with code, which were left out because this profile may not run code
    left_out: tuple[str, ...] = ()
    # checks in the profile's known problems that are not available in this run
    foreign: tuple[str, ...] = ()

    def selects(self, check: Check[Any]) -> bool:
        """Return whether the check runs: it is on by default or requested, and not disabled."""
        levels = self.levels.get(check.id, {})
        named = check.enabled or check.id in self.enable or check.id in self.options
        # The profile has a request to a probe whose answer the check judges:
        requested = any(kind in self.requests for kinds in check.facts for kind in kinds)
        asked = named or asks(levels) or requested
        is_off = EVERYWHERE in levels and not asks(levels)
        return asked and check.id not in self.disable and not is_off

    def level_of(self, check_id: str, path: str, own: Level) -> Level:
        """Return the level of a problem with that path.

        ``own`` is the level set by the problem's check.
        """
        levels = self.levels.get(check_id, {})
        level = next((level for glob, level in levels.items() if fnmatchcase(path, glob)), own)
        return Level.ERROR if self.strict and level is Level.WARNING else level

    def find_way(self, place: PlaceName) -> InstallWay:
        """Return how a package is installed in a place.

        Raises ProfileError for a place that no entry of ``installs`` describes.
        """
        if place.kind != "venv" or not place.argument:
            return InstallWay()
        for each in self.installs:
            if each.name == place.argument:
                return each
        known = ", ".join(each.name for each in self.installs) or "no 'installs'"
        raise ProfileError(f"{place.label}: not in the profile {self.source}, which has {known}")

    def waivers(self, check_id: str, *names: str) -> tuple[KnownProblem, ...]:
        """Return the check's known problems that apply to a package with any of these names."""
        return tuple(
            known
            for known in self.known_problems
            if known.check == check_id
            and known.holds_in(self.cell)
            and any(map(known.selects, names))
        )


def load_profile(name_or_path: str) -> Profile:
    """Read a shipped profile by name, or a TOML file by path.

    From a pyproject.toml only the table ``[tool.binary_checks]`` is read. Raises ProfileError.
    """
    return _load(name_or_path, Path(), ())


def enable_thorough(profile: Profile) -> Profile:
    """Return the profile with long steps and snippets, and decompression of all device code."""
    probes = dict(profile.probes)
    needs = ((GpuRequest, "module"), (SnippetRequest, "code"), (DeviceCodeRequest, ""))
    for request, key in needs:
        if not key or profile.probes.get(request.table, {}).get(key):
            probes[request.table] = {**probes.get(request.table, {}), "thorough": True}
    return replace(profile, probes=probes)


def find_profile(folder: Path) -> Profile:
    """Return the nearest ``[tool.binary_checks]`` in a pyproject.toml, else the default profile.

    The default profile is empty and not read from a file. The search goes up to the repository's
    root, and skips each pyproject.toml without the table.
    """
    name = "pyproject.toml"
    for _ in walk_up(folder):
        path = folder / name
        if path.is_file() and _own_table(read_toml(path, f"profile {name}"), name) is not None:
            return _load(name, folder, ())
        name = f"../{name}"
    return Profile()


def _load(name_or_path: str, folder: Path, above: tuple[Path, ...]) -> Profile:
    """Read a profile that is named by the user, or by a profile in ``folder``.

    ``above`` are the profiles that extend it, directly or through others.
    """
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
    """Return the table ``[tool.binary_checks]`` of a pyproject.toml, or None."""
    tools = pyproject.get("tool", {})
    table = tools.get("binary_checks") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ProfileError(f"profile {source}: tool.binary_checks: not a table")
    return table


def _profile(
    table: Mapping[str, Any], source: str, folder: Path, above: tuple[Path, ...]
) -> Profile:
    """Convert a table to a Profile; paths in the table are relative to ``folder``."""
    kinds: dict[str, Any] = {
        "extends": str,
        "checks": tuple[str, ...],
        "kinds": tuple[str, ...],
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
        "installs": list,
    }
    values = convert_table(table, kinds, f"profile {source}")

    def place_of(name: str) -> str:
        key = next(key for key in table if key == name)
        return f"{locate(f'profile {source}', key)}: {name}"

    if not 0 < values.get("timeout", 1) < 1e6:  # waiting functions fail for larger timeouts
        raise ProfileError(
            f"{place_of('timeout')}: {values['timeout']} is not between 0 and 1,000,000 seconds"
        )
    if not 1 <= values.get("limit_factor", 1) <= _LARGEST_FACTOR:
        raise ProfileError(f"{place_of('limit_factor')}: not from 1 to {_LARGEST_FACTOR}")
    if (unjudged := values.get("unjudged", FAIL)) not in UNJUDGED:
        raise ProfileError(
            f"{place_of('unjudged')}: {unjudged!r:.80} is neither {' nor '.join(UNJUDGED)}"
        )
    base = _load(values["extends"], folder, above) if "extends" in values else Profile()
    installs = read_installs(values.get("installs", []), f"profile {source}")
    return Profile(
        source=source,
        checks=base.checks + tuple(folder / path for path in values.get("checks", ())),
        kinds=base.kinds + tuple(folder / path for path in values.get("kinds", ())),
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
        installs=tuple({each.name: each for each in (*base.installs, *installs)}.values()),
    )


def _merge(
    base: Mapping[str, Mapping[str, Any]], own: Mapping[str, Any], where: str
) -> dict[str, Mapping[str, Any]]:
    for name, table in own.items():
        if not isinstance(table, dict):
            raise ProfileError(f"{where}.{name}: not a table")
    return {**base, **{name: _add(base.get(name, {}), table) for name, table in own.items()}}


def _add(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables: subtables of the same name are merged, other values come from ``own``."""
    tables = {name for name, value in base.items() if isinstance(value, dict)}
    both = {name for name, value in own.items() if isinstance(value, dict)} & tables
    return {**base, **own, **{name: {**base[name], **own[name]} for name in both}}


def validate(
    profile: Profile, checks: Iterable[Check[Any]], gatherers: Iterable[Gatherer[..., Any]] = ()
) -> Profile:
    """Return the profile with options and requests converted to their declared types.

    Raises ProfileError for an unknown check, option or probe, and for a wrong type. An unknown
    check in a shared list of known problems is allowed: other users of the list may have another
    version or their own checks.
    """
    by_id = {check.id: check for check in checks}
    where = f"profile {profile.source}"
    named = (*profile.enable, *profile.disable, *profile.options, *profile.levels)
    reject_unknown(dict.fromkeys(named), by_id, where, "check")
    for known in profile.known_problems:
        if not known.is_shared:
            reject_unknown([known.check], by_id, known.listed or where, "check")
    options = {
        check_id: convert_table(
            values,
            {name: option.annotation for name, option in by_id[check_id].options.items()},
            f"{where}: options.{check_id}",
            ".",
            noun="option",
        )
        for check_id, values in profile.options.items()
    }
    kinds = find_requests((*by_id.values(), *gatherers))
    reject_unknown(profile.probes, kinds, f"{where}: probes", "probe")
    requests: dict[type[Request], Request] = {
        kinds[name]: _read(kinds[name], table, f"{where}: probes.{name}")
        for name, table in profile.probes.items()
    }
    foreign = sorted({each.check for each in profile.known_problems} - by_id.keys())
    return replace(profile, options=options, requests=requests, foreign=tuple(foreign))


# Restrictions on a profile that was found in the folder instead of named by the user.

_FEW = 5


def leave_out_code(
    profile: Profile, declared: Iterable[Check[Any] | Gatherer[..., Any]]
) -> Profile:
    """Return the profile without network access and code, except code of a shipped profile.

    If the profile names its own files of checks or kinds, its settings for the checks in them are
    removed, too.
    """
    declared = tuple(declared)
    known = {each.id for each in declared if isinstance(each, Check)}
    if not (profile.checks or profile.kinds):  # then an unknown check is an error, reported later
        known.update(profile.enable, profile.disable, profile.options, profile.levels)
        known.update(each.check for each in profile.known_problems)
    kinds = find_requests(declared)
    probes = dict(_keep_harmless(profile, kinds))
    files = [path.name for path in (*profile.checks, *profile.kinds)]
    settings = [name for name in ("network", "installs") if getattr(profile, name)]
    return replace(
        profile,
        checks=(),
        kinds=(),
        enable=frozenset(name for name in profile.enable if name in known),
        disable=frozenset(name for name in profile.disable if name in known),
        options={name: values for name, values in profile.options.items() if name in known},
        levels={name: levels for name, levels in profile.levels.items() if name in known},
        probes=probes,
        network=False,
        installs=(),
        known_problems=tuple(each for each in profile.known_problems if each.check in known),
        left_out=(*files, *settings, *_list_left_out(profile, probes)),
    )


def _keep_harmless(
    profile: Profile, kinds: Mapping[str, type[Request]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the probes' tables with the shipped profile's values for all keys that contain code."""
    for table, values in profile.probes.items():
        shipped, code = profile.shipped.get(table, {}), list_code(table, kinds)
        if code is None:
            if not (profile.checks or profile.kinds):  # otherwise their checks may define it
                yield table, dict(values)
            continue
        kept = {name: value for name, value in values.items() if name not in code}
        kept.update((name, shipped[name]) for name in code & shipped.keys())
        if kept or not values:
            yield table, kept


def _list_left_out(profile: Profile, kept: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for table, values in profile.probes.items():
        for name, value in sorted(values.items()):
            if table not in kept or kept[table].get(name) != value:
                yield f"probes.{table}.{name}"


def announce(profile: Profile) -> Iterator[str]:
    """Yield a line on the known problems in the profile, if any, with their checks."""
    own = (each for each in profile.known_problems if not each.listed.startswith(LIST))
    counts = Counter(each.check for each in own)
    if counts:
        checks = format_few([f"{name} ({count})" for name, count in sorted(counts.items())])
        yield f"{profile.source}, which was found automatically, accepts known problems: {checks}"


def format_left_out(profile: Profile) -> str:
    """Format a line on the parts that are left out, and how to use them."""
    what = format_few(profile.left_out)
    return (
        f"{profile.source} was found automatically and is used without {what}: "
        f"give --binary-profile {profile.source} to use all of it"
    )


def format_few(names: Iterable[str]) -> str:
    """Format the first names, and the number of further names."""
    names = list(names)
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


# Identity of a profile: hashes of its contents, independent of its location and order.

_OF_NO_MEANING = {"source", "shipped", "left_out", "cell", "foreign"}
"""Fields about the origin of a profile, which its hash leaves out."""


def identify_profile(profile: Profile) -> ProfileIdentity:
    """Hash a profile; for its own Python files the contents count, not the paths."""
    contents = {
        field.name: getattr(profile, field.name)
        for field in fields(profile)
        if field.name not in _OF_NO_MEANING
    }
    # The order of levels is kept, because the first match counts.
    contents["levels"] = {check: tuple(each.items()) for check, each in profile.levels.items()}
    known = sorted(map(_dump, contents.pop("known_problems")))
    return ProfileIdentity(
        source=profile.source,
        sha256=_hash(_dump(contents)),
        known_problems_sha256=_hash("\n".join(known)),
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _dump(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value as JSON can represent it, with sets sorted."""
    if isinstance(value, Path):
        return hashlib.sha256(value.read_bytes()).hexdigest()
    if isinstance(value, frozenset):
        return sorted(map(_dump, value))
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if is_dataclass(value):
        compared = (field for field in fields(value) if field.compare)
        return {field.name: _plain(getattr(value, field.name)) for field in compared}
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
