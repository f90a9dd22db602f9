"""An archive of C++ libraries, with headers and files for build systems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from binary_checks.model.cmake import BuildFiles
from binary_checks.model.headers import Headers
from binary_checks.model.packages import Package


@dataclass(frozen=True, kw_only=True, slots=True)
class CmakePackage:
    """A file that CMake's ``find_package`` finds by its name."""

    name: str  # "Torch" of TorchConfig.cmake, "fmt" of fmt-config.cmake
    path: str  # of that file, relative to the prefix


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedBuild:
    """What the name of the file says of the build; None and "" where it does not."""

    system: str = ""  # as claims spell it: "linux", "macos", "windows"
    architectures: tuple[str, ...] = ()  # as platform tags of Linux spell them
    linking: str = ""  # "shared" or "static"
    with_deps: bool | None = None  # whether the libraries that it needs are in it
    cxx11_abi: bool | None = None
    debug: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CppArchive(Package):
    """An archive of C++ libraries, which users unpack wherever they like and build against.

    Its paths count from the folder in which ``lib`` and ``include`` lie.
    """

    noun: ClassVar[str] = "an archive of C++ libraries"

    top: str = ""  # that folder in the archive; "" where it is the archive's own top
    stated: StatedBuild = field(default_factory=StatedBuild)
    build_version: str = ""  # the text of build-version, "" where there is none
    build_hash: str = ""  # the text of build-hash
    cmake_packages: tuple[CmakePackage, ...] = ()
    build_files: BuildFiles = field(default_factory=BuildFiles)  # for CMake and pkg-config
    headers: Headers = field(default_factory=Headers)
