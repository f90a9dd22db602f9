"""Reads which images there are: those that ship with us, and those of a file of the user's."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from binary_checks.errors import ProfileError
from binary_checks.profile.toml_values import convert, read_toml, reject_unknown
from binary_checks.withheld import user_environment

VARIABLE = "BINARY_CHECKS_IMAGES"
"""The environment variable that names a file of the user's own images."""
ARCHITECTURES = {
    "amd64": "x86_64",
    "arm64": "aarch64",
    "armhf": "armv7l",
    "i386": "i686",
    "ppc64el": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}
"""How the model spells what Debian spells so."""
_SHIPPED = Path(__file__).with_name("images.toml")
_PLAIN = "base"  # the profile that a name leaves out
_NAME = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,63}")
_WORD = re.compile(r"[a-z0-9][a-z0-9.+-]*")  # a suite's or a package's name: never an option
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PINNED = re.compile(r"[a-z0-9][a-z0-9.+-]*=[0-9A-Za-z.+~:-]+=[0-9a-f]{64}")
_MIRROR = re.compile(r"(?:https?|file)://[^\s\[\]]+")
_KEYRING = re.compile(r"/[^\s\[\]\"]+")
_REFERENCE = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageEntry:
    """What an image is made of."""

    name: str = ""
    suite: str = ""  # of the distribution
    profile: str = _PLAIN
    architecture: str = ""  # as the distribution spells it; "" of an OCI image: this machine's
    libc: str = ""  # "glibc 2.31"; "glibc" of a suite that moves
    python: str = ""  # "3.9" where it has one
    with_python: str = ""  # the name of the same system with one, where it has none
    packages: tuple[str, ...] = ()  # what is asked for, beside what these need
    lacks: tuple[str, ...] = ()  # libraries of its policy that it cannot have
    moves: bool = False  # whether another system may stand behind the name tomorrow
    mirror: str = "http://deb.debian.org/debian"
    keyring: str = "/usr/share/keyrings/debian-archive-keyring.gpg"  # who may sign the suite
    oci: str = ""  # a reference with its digest, instead of all that
    digest: str = ""  # pinned: of the tree
    pinned: tuple[str, ...] = ()  # pinned: "name=version=sha256" of each package

    @property
    def libc_version(self) -> tuple[int, ...]:
        """The version as numbers: (2, 31); () where it moves."""
        return tuple(map(int, re.findall(r"\d+", self.libc)))

    @property
    def machine(self) -> str:
        """The architecture as the model spells it."""
        return ARCHITECTURES.get(self.architecture, self.architecture)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Suite:
    libc: str
    architectures: tuple[str, ...]
    suite: str = ""  # where it is called otherwise
    python: str = ""
    packages: tuple[str, ...] = ()  # of it alone: it has no profiles ...
    profile: str = _PLAIN  # ... but this one
    lacks: tuple[str, ...] = ()
    moves: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Profile:
    packages: tuple[str, ...] = ()
    of: tuple[str, ...] = ()  # other profiles
    with_python: str = ""  # the profile that is the same with a Python


@dataclass(frozen=True, kw_only=True, slots=True)
class _OwnImage:
    """A table of the user's file."""

    base: str = ""  # the name of another image, from which this one differs
    packages: tuple[str, ...] = ()
    mirror: str = ""
    keyring: str = ""
    oci: str = ""
    digest: str = ""
    pinned: tuple[str, ...] = ()


def read_entries(own: Path | None = None) -> dict[str, ImageEntry]:
    """Read all entries by name; those of ``own``, or of the file that the variable names, win.

    Raises ProfileError for a file that says something that cannot be followed.
    """
    found = {entry.name: entry for entry in _read_shipped()}
    named = user_environment().get(VARIABLE, "")
    path = own or (Path(named) if named else None)
    if path is not None:
        found |= _read_own(path, found)
    return found


def spell_host_architecture() -> str:
    """Spell this machine's architecture as Debian does."""
    machine = platform.machine().lower()
    spellings = {model: debian for debian, model in ARCHITECTURES.items()}
    return spellings.get(machine, machine)


def _read_shipped() -> Iterator[ImageEntry]:
    tables = read_toml(_SHIPPED, _SHIPPED.name)
    profiles = {
        name: _Profile(**_convert(each, _Profile, f"{_SHIPPED.name}: {name}"))
        for name, each in tables["profiles"].items()
    }
    for name, table in tables["suites"].items():
        suite = _Suite(**_convert(table, _Suite, f"{_SHIPPED.name}: {name}"))
        for architecture in suite.architectures:
            for profile in (suite.profile,) if suite.packages else profiles:
                yield _make_shipped(name, suite, architecture, profile, profiles)


def _make_shipped(
    name: str, suite: _Suite, architecture: str, profile: str, profiles: Mapping[str, _Profile]
) -> ImageEntry:
    twin = "" if suite.packages else profiles[profile].with_python
    packages = suite.packages or tuple(
        suite.renamed.get(each, each).format(python=suite.python)
        for each in _list_packages(profile, profiles)
    )
    return ImageEntry(
        name=_spell(name, _PLAIN if suite.packages else profile, architecture),
        suite=suite.suite or name,
        profile=profile,
        architecture=architecture,
        libc=suite.libc,
        python=suite.python if f"python{suite.python}" in packages else "",
        with_python=twin and _spell(name, twin, architecture),
        packages=packages,
        lacks=suite.lacks,
        moves=suite.moves,
    )


def _spell(suite: str, profile: str, architecture: str) -> str:
    """Name an image: what is usual, and this machine's architecture, goes without saying."""
    apart = "" if architecture == spell_host_architecture() else architecture
    return "-".join(filter(None, (suite, "" if profile == _PLAIN else profile, apart)))


def _list_packages(profile: str, profiles: Mapping[str, _Profile]) -> Iterator[str]:
    if profile != _PLAIN:
        yield from profiles[_PLAIN].packages
    for each in (profile, *profiles[profile].of):
        yield from profiles[each].packages


def _read_own(path: Path, known: Mapping[str, ImageEntry]) -> dict[str, ImageEntry]:
    tables = read_toml(path, str(path))
    reject_unknown(tables, {"images": None}, str(path), "table")
    found: dict[str, ImageEntry] = {}
    for name, table in convert(tables.get("images", {}), dict, f"{path}: images").items():
        where = f"{path}: images.{name}"
        if not _NAME.fullmatch(name):
            raise ProfileError(f"{where}: not a name of lower-case letters, digits, '-' and '.'")
        own = _OwnImage(**_convert(convert(table, dict, where), _OwnImage, where))
        found[name] = _make_own(name, own, {**known, **found}, where)
    return found


def _convert(table: Mapping[str, Any], kind: type, where: str) -> dict[str, Any]:
    hints = get_type_hints(kind)
    reject_unknown(table, hints, where, "key")
    lacking = [each.name for each in fields(kind) if each.name not in table and _is_demanded(each)]
    if lacking:
        raise ProfileError(f"{where}: no {lacking[0]}")
    return {key: convert(value, hints[key], f"{where}.{key}") for key, value in table.items()}


def _is_demanded(each: Any) -> bool:
    from dataclasses import MISSING

    return each.default is MISSING and each.default_factory is MISSING


def _make_own(name: str, own: _OwnImage, known: Mapping[str, ImageEntry], where: str) -> ImageEntry:
    for key, shape in (("mirror", _MIRROR), ("keyring", _KEYRING), ("digest", _DIGEST)):
        value = getattr(own, key)
        if value and not shape.fullmatch(value):
            raise ProfileError(f"{where}.{key}: {value!r} is not what it should be")
    for key, texts, shape in (
        ("packages", own.packages, _WORD),
        ("pinned", own.pinned, _PINNED),
    ):
        for text in texts:
            if not shape.fullmatch(text):
                raise ProfileError(f"{where}.{key}: {text!r} is not what it should be")
    if own.oci:
        return _make_oci(name, own, where)
    if own.base not in known:
        reject_unknown([own.base], known, f"{where}.base", "image")
    base = known[own.base]
    given = {
        key: value
        for key in ("mirror", "keyring", "digest", "pinned")
        if (value := getattr(own, key))
    }
    twin = "" if own.packages else base.with_python  # which has nothing that was added
    packages = (*base.packages, *own.packages)
    return replace(base, name=name, packages=packages, with_python=twin, **given)


def _make_oci(name: str, own: _OwnImage, where: str) -> ImageEntry:
    if not _REFERENCE.fullmatch(own.oci):
        raise ProfileError(
            f"{where}.oci: {own.oci!r} has no digest (NAME@sha256:…): an image that is not pinned "
            "is never pulled"
        )
    if own.base or own.packages or own.mirror:
        raise ProfileError(f"{where}: an OCI image has no base, no packages and no mirror")
    return ImageEntry(name=name, oci=own.oci, digest=own.digest, mirror="", keyring="")
