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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from binary_checks.errors import GatherError, NothingNamed
from binary_checks.model import Conditions, InstalledPackage, Package
from binary_checks.places.existing import (
    Folders,
    find_metadata,
    name_projects,
    read_folders,
    select_versions,
)
from binary_checks.places.host_place import PlaceSettings
from binary_checks.places.image_place import ImagePlace, Prefix

_MOST_OUTSIDE = 1000  # files outside of site-packages that are copied
_LARGEST_RECORD = 64 << 20  # bytes
_OURS = ("HOME", "TMPDIR", "LC_ALL")
"""Variables that a container of ours sets itself."""


class InsidePlace(ImagePlace):
    """A container with the package that its image contains."""

    serves = (InstalledPackage,)

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that the image sets for its users."""
        variables = self._image.image.variables
        return {name: text for name, text in variables.items() if name not in _OURS}

    def find_python(self, names: Sequence[str]) -> tuple[str, Folders]:
        """Return the first interpreter of the image that has all these distributions.

        Its folders are paths in the image. Raises NothingNamed if none has them.
        """
        system = self.system
        programs = list(dict.fromkeys((*system.commands, *system.pythons)))
        for program in programs:
            with suppress(GatherError):  # it does not start, or is too old
                found = self._ask_folders(program, names)
                if set(names) <= found.versions.keys():
                    return program, found
        known = ", ".join(programs) or "which has no Python"
        raise NothingNamed(f"{', '.join(names)}: not installed in {system.title} ({known})")

    def _ask_folders(self, program: str, names: Sequence[str]) -> Folders:
        answer = self._run_probe(program, "list_folders", {"names": list(names)}, Conditions())
        return read_folders(Path(program), answer)

    def _install(self, package: Package) -> None:
        """Find the package and its requirements in the image; install nothing."""
        program, folders = self.find_python((package.name,))
        site = self._find_site(folders, package.name)
        target = self._ask(program)
        paths = {**target.paths, "platlib": site, "purelib": site}
        self._target = replace(target, paths=paths)
        if self.requires:
            found = self._ask_folders(program, name_projects(self.requires))
            self.preinstalled = tuple(
                select_versions(self.requires, found.versions, target.markers)
            )

    def _find_site(self, folders: Folders, project: str) -> str:
        """Return the folder of the image that has the project's metadata."""
        named = re.sub(r"[-_.]+", "[-_.]", re.escape(project).replace(r"\-", "-"))
        pattern = re.compile(rf"{named}-[^-]+\.dist-info", re.IGNORECASE)
        for folder in map(str, folders.search):
            listed = self._open().run(("ls", "-1", folder), timeout=self.timeout, kept=1 << 22)
            if any(pattern.fullmatch(name) for name in listed.stdout.splitlines()):
                return folder
        raise NothingNamed(f"{self.system.title}: its metadata is not in a folder")

    def _lay_out(self, package: Package) -> Prefix:
        self.require_installed(package)
        site = str(self.site_packages)
        return Prefix(folder=Path(), site=site, root=str(self.target.prefix))

    def copy(self, names: Sequence[str], folder: Path) -> Folders:
        """Copy the image's site-packages into a folder of this host, and return its folders.

        Of files outside of site-packages only those are copied that RECORD of a named distribution
        lists. Raises NothingNamed or GatherError.
        """
        _, folders = self.find_python(names)
        prefix = posixpath.normpath(str(folders.prefix))
        container = self._open()
        script = (
            'for each; do for info in "$each"/*.dist-info; do '
            'if [ -d "$info" ]; then echo "$each"; break; fi; done; done'
        )
        searched = map(str, folders.search)
        asked = container.run(("sh", "-c", script, "sh", *searched), timeout=self.timeout)
        # the folders of the image that contain distributions
        roots = tuple(dict.fromkeys(asked.stdout.splitlines()))
        copied = [folder.joinpath(*each.split("/")[1:]) for each in roots]
        for inside, path in zip(roots, copied, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            container.copy_out(f"{inside}/.", path)
        for name in names:
            found = find_metadata(name, copied)
            if found is not None:
                self._copy_outside(found, folder, prefix)
        return Folders(
            search=tuple(copied),
            prefix=folder.joinpath(*prefix.split("/")[1:]),
            versions=folders.versions,
        )

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
