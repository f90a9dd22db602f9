"""Extension modules bound to one Python in a wheel that promises many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, Level, Problem, Wheel
from binary_checks.model.extensions import ExtensionName, parse_extension_name
from binary_checks.wording.phrases import name_first

_UNBOUND = frozenset({"", "abi3", "abi3t"})  # ABIs of tags that promise later Pythons too


class _File(NamedTuple):
    path: str
    name: ExtensionName


@check
def version_bound_extension(package: Wheel) -> Iterator[Finding]:
    """An extension module of an abi3 wheel has a suffix that one Python alone imports.

    A file called ``_native.cpython-311-x86_64-linux-gnu.so`` or ``_native.cp311-win_amd64.pyd`` is
    imported by CPython 3.11 and by no other, whatever it was compiled with. The same holds in a
    wheel for any Python (``py3-none-...``). A module that is there under ``.abi3.so``, ``.so`` or
    ``.pyd`` too is none of these.

    Why: the wheel installs on every Python that its tag promises, and the import ends with a
    ModuleNotFoundError on all but one.
    Fix: have the build name the module for the stable ABI (setuptools: ``py_limited_api=True`` of
    the Extension), or tag the wheel for that one Python.
    Level: users of all other Pythons cannot import the module. Where it is there for several
    Pythons, for which it may have been built on purpose, that is a warning.
    """
    claims = package.claims.pythons
    if not claims or any(claim.abi not in _UNBOUND for claim in claims):
        raise NotApplicable("its tags promise one Python")
    spelled = name_first([claim.name for claim in claims])
    for files in _group_by_module(package).values():
        versions = sorted({file.name.version for file in files if file.name.version})
        if not versions or any(file.name.version is None for file in files):
            continue
        alone = name_first([f"{major}.{minor}" for major, minor in versions])
        for file in files:
            yield Problem(
                path=file.path,
                sentence=f"is imported by Python {alone} alone, and {spelled} promises others",
                level=Level.WARNING if versions[1:] else Level.ERROR,
            )


def _group_by_module(package: Wheel) -> Mapping[tuple[str, str], list[_File]]:
    """The files of each extension module, by its folder and the beginning of its name."""
    found: dict[tuple[str, str], list[_File]] = defaultdict(list)
    for member in package.members:
        name = parse_extension_name(member.path)
        if name is not None:
            found[member.path.rpartition("/")[0], name.stem].append(_File(member.path, name))
    return found
