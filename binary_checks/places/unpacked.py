"""A place for C++ archives: unpacked, moved away, and built against by the host's compilers."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import InstallReport, Package
from binary_checks.model.packages import CppArchive
from binary_checks.model.places import Place
from binary_checks.model.protocols import ObjectReader, ReadObject
from binary_checks.places.host_place import HostPlace, PlaceSettings
from binary_checks.places.toolchains import find_files_of
from binary_checks.places.unpacking import RefusedMember, unpack
from binary_checks.trees import open_tree
from binary_checks.trees.file_bytes import open_bytes
from binary_checks.trees.folder import FileByteSource

_DISK = 8 << 30  # bytes that all builds take together: a program of static libraries has one itself


class UnpackedPlace(HostPlace):
    """A folder that an archive was moved to, in which consumers of it are built and run."""

    serves = (CppArchive,)
    spelled = ("venv",)

    def __init__(self, settings: PlaceSettings, requires: tuple[str, ...] = ()) -> None:
        super().__init__(settings, requires)
        self.limits = replace(self.limits, shared=_DISK)
        self._prefix: Path | None = None

    @property
    def prefix(self) -> Path:
        """The folder with ``lib`` and ``include``, which is not the one it was unpacked in."""
        assert self._prefix is not None, "nothing is unpacked yet"
        return self._prefix

    @property
    def work(self) -> Path:
        """The folder that builds are made in: they write there, and here it is read."""
        folder = self.folder.resolve() / "build"
        folder.mkdir(exist_ok=True)
        self.limits = replace(self.limits, writable=(folder,))
        return folder

    def make_folder(self, name: str) -> Path:
        """Make a folder to build in, under a name that nothing which ran before could guess.

        Else what ran could have put a link there, which the host would write through.
        """
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.work))

    def show(self, programs: tuple[Path, ...]) -> None:
        """Let probes run these programs of the host, with the files that they need themselves."""
        seen = (path for program in programs for path in find_files_of(program))
        visible = tuple(dict.fromkeys((*self.limits.visible, *seen)))
        self.limits = replace(self.limits, visible=visible)

    def _install(self, package: Package) -> InstallReport:
        """Unpack it in one folder, and move it to another before anybody looks at it."""
        assert isinstance(package, CppArchive)
        root = self.folder.resolve()
        unpacked, moved = root / "unpacked", root / "moved"
        unpacked.mkdir()
        with closing(open_tree(package.path)) as tree:
            try:
                unpack(tree, package, unpacked, seconds=self.timeout)
            except RefusedMember as error:
                return self._report(str(error))
        unpacked.rename(moved)
        self._prefix = prefix = moved / package.top if package.top else moved
        if not prefix.is_dir():
            raise GatherError(f"{package.path.name}: {package.top} was not unpacked")
        self.limits = replace(self.limits, visible=(*self.limits.visible, prefix))
        return self._report("")

    def _report(self, error: str) -> InstallReport:
        return InstallReport(python=self.target.name, installer="unpacking", error=error)

    def read_program(self, path: str, reader: ObjectReader) -> tuple[ReadObject, ...]:
        """Read a program that was built, by its path below the folder of builds."""
        with open_bytes(self.work / path) as file:
            return reader.read_objects(path, FileByteSource(file))

    def scrub(self, text: str) -> str:
        """Write paths relative to the prefix, or to the folder of builds."""
        folders = {self._prefix: "", self.work: "build/"} if self._prefix else {}
        for folder, shown in folders.items():
            text = text.replace(f"{folder}{os.sep}", shown).replace(str(folder), shown or ".")
        return super().scrub(text)


def demand_builds(place: Place) -> UnpackedPlace:
    """The place as one in which consumers are built. Raises Unavailable for any other."""
    if isinstance(place, UnpackedPlace):
        return place
    raise Unavailable("programs are built and linked only where the host's own compilers are")
