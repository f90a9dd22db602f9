"""Folders that are packages: an unpacked wheel, an environment, the output of a build."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from binary_checks import packages, trees
from binary_checks.errors import ProfileError
from binary_checks.model import Package, PackageKind, Tree
from binary_checks.sources.file import OpenedSource, explain, explain_folder
from binary_checks.sources.run_environment import Surroundings

LABEL = "folder:"


def parse(argument: str, folder: Path) -> FolderSource | None:
    """Return a folder named with ``folder:``; pytest collects tests in any other folder."""
    if not argument.startswith(LABEL):
        return None
    written = argument.removeprefix(LABEL)
    return FolderSource(path=Path(os.path.normpath(folder / written)), written=argument)


def find(argument: str, folder: Path, kinds: tuple[PackageKind, ...] = ()) -> FolderSource | None:
    """Return a folder that is named by its path only, if it is an unpacked package.

    ``kinds`` are the project's own.
    """
    path = Path(os.path.normpath(folder / argument))
    if not path.is_dir() or explain_folder(argument, path):
        return None
    found = packages.recognises(path, folders=True, kinds=kinds)
    return FolderSource(path=path, written=argument, kinds=kinds) if found else None


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderSource(OpenedSource):
    """A folder with all its contents."""

    path: Path
    written: str = ""  # the path as the user wrote it
    kinds: tuple[PackageKind, ...] = ()
    stated: Package | None = None

    @property
    def label(self) -> str:
        """The folder's name with a slash."""
        return f"{self.path.name}/"

    def resolve(self, surroundings: Surroundings) -> FolderSource:
        """Return the source itself if the folder exists. Raises ProfileError."""
        del surroundings
        if self.written == LABEL:
            raise ProfileError(f"{LABEL}: name a folder after the colon: {LABEL}build/lib")
        if not self.path.is_dir():
            reason = "not a folder" if self.path.exists() else "no such folder"
            raise ProfileError(f"{self.written}: {reason}")
        if not packages.recognises(self.path, folders=True, kinds=self.kinds):
            raise ProfileError(explain(self.written, self.path))
        return self

    def identity(self) -> str:
        """Return ``sha256 …`` of a list of all files with their hashes, and of all links.

        Raises PackageError.
        """
        digest = hashlib.sha256()
        with closing(self.open()) as tree:
            whole = [each for each in tree.entries() if not each.faults]
            for link in (each for each in whole if stat.S_ISLNK(each.mode)):
                target = (self.path / link.name).readlink()
                digest.update(f"{target}  {link.name}\n".encode(errors="replace"))
            files = [each for each in whole if not stat.S_ISLNK(each.mode)]
            for entry, pieces in tree.contents(files):
                content = hashlib.sha256()
                for piece in pieces:
                    content.update(piece)
                digest.update(f"{content.hexdigest()}  {entry.name}\n".encode(errors="replace"))
        return f"sha256 {digest.hexdigest()}"

    def open(self) -> Tree:
        """Return the tree of the folder's files."""
        return trees.open_tree(self.path)

    def restate(self, package: Package) -> Package:
        """Return the stated package unchanged: the files have the same hashes."""
        return replace(package, path=self.path)
