"""A package that an image contains, such as torch in a released image: judged where it lies.

Its files are copied out of the image to be read. It runs in a container of the image, by the
image's own interpreter and with the image's own variables, as users of the image run it.
"""

from __future__ import annotations

import csv
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from binary_checks.errors import GatherError, NothingNamed
from binary_checks.model import (
    Conditions,
    Ending,
    InstalledPackage,
    Package,
)
from binary_checks.places.existing import Folders, find_metadata, select_versions
from binary_checks.places.host_place import PlaceSettings
from binary_checks.places.image_place import ImagePlace, Prefix, UnpackedFiles

_MOST_OUTSIDE = 1000  # files outside of site-packages that are copied
_LARGEST_RECORD = 64 << 20  # bytes
_OURS = ("HOME", "TMPDIR", "LC_ALL")
"""Variables that a container of ours sets itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InsidePython:
    """An interpreter of an image, and where it looks for packages; all paths are the image's."""

    program: str
    search: tuple[str, ...]
    prefix: str
    versions: Mapping[str, str]  # installed versions of the requested distributions, by name


@dataclass(frozen=True, kw_only=True, slots=True)
class InsideFiles(Prefix):
    """The files of a package in the image: paths are absolute there."""

    prefix: str  # the environment's prefix in the image
    root: ClassVar[str] = ""

    def place(self, package: Package, path: str) -> str:
        """Convert a path in the package to the path in the image."""
        inside = package.layout.inside(path)
        return f"{self.prefix}/{path}" if inside is None else f"{self.site}/{inside}"

    def rename(self, package: Package, text: str) -> str:
        """Replace paths in site-packages of the image by paths in the package."""

        def find(match: re.Match[str]) -> str:
            return package.layout.place(match[1])

        return re.sub(rf"{re.escape(self.site)}/([^\s:()]+)", find, text)


class InsidePlace(ImagePlace):
    """A container with the package that its image contains."""

    serves = (InstalledPackage,)

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that the image sets for its users."""
        _, image = self._image
        return {name: text for name, text in image.variables.items() if name not in _OURS}

    def find_python(self, names: Sequence[str]) -> InsidePython:
        """Return the first interpreter of the image that has all these distributions.

        Raises NothingNamed if none has them.
        """
        system = self.system
        programs = list(dict.fromkeys((*system.commands, *system.pythons)))
        for program in programs:
            found = self._ask_folders(program, names)
            if found is not None and set(names) <= found.versions.keys():
                return found
        known = ", ".join(programs) or "which has no Python"
        raise NothingNamed(f"{', '.join(names)}: not installed in {system.title} ({known})")

    def _ask_folders(self, program: str, names: Sequence[str]) -> InsidePython | None:
        answer = self._run_probe(program, "list_folders", {"names": list(names)}, Conditions())
        folders, prefix = answer.answer.get("folders"), answer.answer.get("prefix")
        versions = answer.answer.get("versions")
        if answer.outcome is not Ending.OK or not isinstance(prefix, str):
            return None  # it does not start, or is too old
        listed = folders if isinstance(folders, list) else []
        return InsidePython(
            program=program,
            search=tuple(each for each in listed if isinstance(each, str) and each[:1] == "/"),
            prefix=posixpath.normpath(prefix),
            versions=versions if isinstance(versions, dict) else {},
        )

    def _install(self, package: Package) -> None:
        """Find the package and its requirements in the image; install nothing."""
        python = self.find_python((package.name,))
        named = re.sub(r"[-_.]+", "[-_.]", re.escape(package.name).replace(r"\-", "-"))
        site = self._find_site(python, named)
        target = self._ask(python.program)
        paths = {**target.paths, "platlib": site, "purelib": site}
        self._target = replace(target, paths=paths)
        wanted = tuple(self.requires)
        if wanted:
            found = self._ask_folders(python.program, tuple(map(_name_of, wanted)))
            versions = found.versions if found is not None else {}
            self.preinstalled = tuple(select_versions(wanted, versions, self._target.markers))

    def _find_site(self, python: InsidePython, named: str) -> str:
        """Return the folder of the image that has the package's metadata."""
        pattern = re.compile(rf"{named}-[^-]+\.dist-info", re.IGNORECASE)
        for folder in python.search:
            listed = self._open().run(("ls", "-1", folder), timeout=self.timeout, kept=1 << 22)
            if any(pattern.fullmatch(name) for name in listed.stdout.splitlines()):
                return folder
        raise NothingNamed(f"{self.system.title}: its metadata is not in a folder")

    def _lay_out(self, package: Package) -> Prefix | UnpackedFiles:
        self.require_installed(package)
        return InsideFiles(
            folder=Path(), site=str(self.site_packages), prefix=str(self.target.prefix)
        )

    def copy(self, names: Sequence[str], folder: Path) -> Folders:
        """Copy the image's site-packages into a folder of this host, and return its folders.

        Of files outside of site-packages only those are copied that RECORD of a named distribution
        lists. Raises NothingNamed or GatherError.
        """
        python = self.find_python(names)
        roots = self._list_roots(python)
        copied = [folder.joinpath(*each.split("/")[1:]) for each in roots]
        container = self._open()
        for inside, path in zip(roots, copied, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            container.copy_out(f"{inside}/.", path)
        for name in names:
            found = find_metadata(name, copied)
            if found is not None:
                self._copy_outside(found, folder, python.prefix)
        return Folders(
            search=tuple(copied),
            prefix=folder.joinpath(*python.prefix.split("/")[1:]),
            versions=python.versions,
        )

    def _list_roots(self, python: InsidePython) -> tuple[str, ...]:
        """Return the folders of the image that contain distributions."""
        script = (
            'for each; do for info in "$each"/*.dist-info; do '
            'if [ -d "$info" ]; then echo "$each"; break; fi; done; done'
        )
        asked = self._open().run(("sh", "-c", script, "sh", *python.search), timeout=self.timeout)
        return tuple(dict.fromkeys(asked.stdout.splitlines()))

    def _copy_outside(self, metadata: Path, folder: Path, prefix: str) -> None:
        site = metadata.parent
        container = self._open()
        for row in list(_list_outside(metadata / "RECORD"))[:_MOST_OUTSIDE]:
            path = Path(os.path.normpath(site / row))
            if not path.is_relative_to(folder):
                continue
            inside = "/" + path.relative_to(folder).as_posix()
            if inside.startswith(f"{prefix}/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    container.copy_out(inside, path)
                except GatherError:
                    continue  # a check reports a file that RECORD lists and the image lacks


def _name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]


def _list_outside(record: Path) -> Iterator[str]:
    """Yield the rows of RECORD that lead out of site-packages."""
    if not record.is_file() or record.stat().st_size > _LARGEST_RECORD:
        return
    with record.open(encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.reader(file):
            if row and row[0].startswith("../"):
                yield row[0]


def copy_from_image(settings: PlaceSettings, names: Iterable[str], folder: Path) -> Folders:
    """Copy the packages of an image into a folder of this host.

    Raises NothingNamed or GatherError.
    """
    with InsidePlace(settings) as place:
        return place.copy(tuple(names), folder)
