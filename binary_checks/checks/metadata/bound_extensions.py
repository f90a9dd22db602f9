"""Extension modules bound to one Python in a wheel that promises many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.promised_pythons import find_promised
from binary_checks.knowledge.unloaded_objects import could_not_look
from binary_checks.model import (
    Finding,
    Level,
    MalformedObject,
    Note,
    Problem,
    UnreadObject,
    WheelLike,
)
from binary_checks.model.python_modules import ExtensionName, is_extension, parse_extension_name
from binary_checks.wording.phrases import name_first

_UNBOUND = frozenset({"", "abi3", "abi3t"})  # ABIs of tags that promise later Pythons too


class _File(NamedTuple):
    path: str
    name: ExtensionName


@check
def version_bound_extension(package: WheelLike) -> Iterator[Finding]:
    """An extension module of an abi3 wheel has a suffix that one Python alone imports.

    A file called ``_native.cpython-311-x86_64-linux-gnu.so`` or ``_native.cp311-win_amd64.pyd`` is
    imported by CPython 3.11 and by no other, whatever it was compiled with. The same holds in a
    wheel for any Python (``py3-none-...``). A module that is there under ``.abi3.so``, ``.so`` or
    ``.pyd`` too is none of these, nor is a library without ``PyInit`` (torchao opens its own by
    their paths).

    Why: the wheel installs on every Python that its tag promises, and the import ends with a
    ModuleNotFoundError on all but one.
    Fix: have the build name the module for the stable ABI (setuptools: ``py_limited_api=True`` of
    the Extension), or tag the wheel for that one Python.
    Level: users of all other Pythons cannot import the module. Under a tag like ``py312-none`` that
    is a warning: there may be a wheel for each Python. Where the module is there for several
    Pythons from the oldest promised on (mosek), only later ones lack it, which is noted.
    """
    claims = package.claims.pythons
    if not claims or any(claim.abi not in _UNBOUND for claim in claims):
        raise NotApplicable("its tags promise one Python")
    spelled = name_first([claim.name for claim in claims])
    whole = any(claim.abi or not claim.version for claim in claims)
    for files in _group_by_module(package).values():
        versions = sorted({file.name.version for file in files if file.name.version})
        if not versions or any(file.name.version is None for file in files):
            continue
        alone = name_first([f"{major}.{minor}" for major, minor in versions], 12)
        if versions[1:] and _covers(package, versions):
            sentence = f"is there for Python {alone}; later ones lack it"
            yield Note(path=files[0].path, sentence=sentence)
            continue
        level = Level.ERROR if whole and not versions[1:] else Level.WARNING
        sentence = f"is imported by Python {alone} alone, and {spelled} promises others"
        yield from (Problem(path=each.path, sentence=sentence, level=level) for each in files)
    unread: tuple[MalformedObject | UnreadObject, ...] = (*package.malformed, *package.unread)
    for item in unread:
        name = parse_extension_name(item.path)
        if name is not None and name.version:
            yield could_not_look(item)


def _covers(package: WheelLike, versions: Sequence[tuple[int, int]]) -> bool:
    """Whether the versions leave none out from the oldest promised one on."""
    minors = [minor for _, minor in versions]
    oldest = min(find_promised(package), default=minors[0])
    return minors == list(range(oldest, oldest + len(minors)))


def _group_by_module(package: WheelLike) -> Mapping[tuple[str, str], list[_File]]:
    """The files of each extension module, by its folder and the beginning of its name."""
    found: dict[tuple[str, str], list[_File]] = defaultdict(list)
    for item in package.objects:
        name = parse_extension_name(item.path)
        if name is not None and (is_extension(item) or not name.version):
            found[item.directory, name.stem].append(_File(item.path, name))
    return found
