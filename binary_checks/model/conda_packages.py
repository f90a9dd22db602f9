"""What a conda package says of itself in ``info/``, as far as it is judged or installed by that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from binary_checks.model.packages import Package


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaPath:
    """One row of ``info/paths.json`` whose file is rewritten at installation."""

    path: str  # as the archive spells it
    placeholder: str  # the prefix that the build put there, for the installer to replace
    mode: str = "text"  # "text", or "binary": padded with NUL


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildPath:
    """A path of the build machine in the bytes of a file."""

    path: str  # the file, as the archive spells it
    text: str  # the first such path in it, cut
    prefix: str = ""
    """The placeholder that the path begins with; "" for another folder of the build."""
    count: int = 1  # of such paths in the file
    cramped: int = 0
    """Of those, how many no NUL follows after mere text: a shorter prefix would shift what comes
    behind, or stays out."""
    binary: bool = False  # the file has NUL in its beginning
    shebang: bool = False  # the path is the interpreter of a script


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaLike(Package):
    """What a conda package and its installed copy both say beside name, version and claims."""

    build: str = ""  # the build string: "cuda126_py311h0123abc_0"
    subdir: str = ""  # "linux-64"
    noarch: str = ""  # "python", "generic", or "" for a package of one platform
    depends: tuple[str, ...] = ()  # match specifications, as they are written
    constrains: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CondaPackage(CondaLike):
    """A conda package file."""

    noun: ClassVar[str] = "a conda package"

    rows: tuple[CondaPath, ...] = ()  # those with a placeholder
    build_paths: tuple[BuildPath, ...] = ()  # in files that are no bytecode, one each and prefix

    @property
    def noarch_python(self) -> bool:
        """Whether its site-packages is put where each Python has its own."""
        return self.noarch == "python"


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedPackage(CondaLike):
    """A package in a conda prefix, known by what conda's tools noted in ``conda-meta``."""

    noun: ClassVar[str] = "an installed conda package"

    @property
    def file_name(self) -> str:
        """How problems name it, as there is no package file."""
        return f"installed:{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenPackages:
    """The conda packages given beside one, whether it depends on them or not."""

    packages: tuple[CondaPackage, ...] = ()
