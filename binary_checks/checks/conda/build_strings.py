"""Whether a package is what its build string and its platform say."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.match_specs import is_of_cuda
from binary_checks.knowledge.nvidia_names import (
    cuda_of_label,
    is_cuda_library,
    is_driver_library,
)
from binary_checks.model import ElfFile, Finding, Level, Linkage, Note, PeFile, Problem
from binary_checks.model.objects import Format, ObjectFile
from binary_checks.model.packages import CondaLike
from binary_checks.model.protocols import ReadObject

_SPELLED = {Format.ELF: "an ELF object", Format.MACHO: "a Mach-O object", Format.PE: "a PE object"}


@check
def cuda_build_without_cuda(package: CondaLike, linkage: Linkage | CondaLike) -> Iterator[Finding]:
    """The build string says CUDA, and nothing in the package has to do with it.

    Neither device code, nor a library of CUDA that an object needs or opens, nor a dependency of
    CUDA or of a CUDA build. A package without objects only chooses others.

    Why: users who ask for the CUDA build get one that does not use their GPU.
    Fix: look in the build's log for why CUDA was not found; make the build stop there.
    Level: users do not get what they asked for.
    """
    if not cuda_of_label(package.claims.variant):
        raise NotApplicable("its build string names no CUDA")
    if not package.objects or package.unread or package.malformed:
        raise NotApplicable("it has no objects that could be read")
    needed = {edge.needed for edge in linkage.edges} if isinstance(linkage, Linkage) else set()
    opened = {name for each in package.objects if each.opened for name in each.opened.names}
    if any(is_cuda_library(name) or is_driver_library(name) for name in needed | opened):
        return
    if any(map(is_of_cuda, package.depends)) or any(_device_code(package)):
        return
    sentence = (
        f"the build string {package.build} says CUDA: no object has code for a GPU or needs a "
        "library of CUDA, and no dependency is for it"
    )
    yield Problem(sentence=sentence)


def _device_code(package: CondaLike) -> Iterator[str]:
    for item in package.objects:
        if isinstance(item, ElfFile | PeFile) and item.device_code:
            yield item.path


@check
def objects_in_noarch(package: CondaLike) -> Iterator[Finding]:
    """A package for every platform has an object of one.

    Launchers for Windows (``.exe``), which setuptools and pip ship for all, are noted.

    Why: conda installs it everywhere; on all other systems and architectures the file does not
    load.
    Fix: leave ``noarch`` out of the recipe.
    Level: users of other platforms cannot load the library. A program or plugin that nothing loads
    as part of Python is a warning.
    """
    if not package.noarch:
        raise NotApplicable("it is for one platform")
    found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
    for item in found:
        if item.format not in _SPELLED:
            continue
        of = f" for {item.architecture}" if isinstance(item, ObjectFile) else ""
        sentence = f"is {_SPELLED[item.format]}{of}, and the package is for every platform"
        if item.path.endswith(".exe"):
            yield Note(path=item.path, sentence=sentence)
        else:
            loaded = item.path.endswith((".so", ".pyd", ".dylib")) or ".so." in item.path
            level = Level.ERROR if loaded else Level.WARNING
            yield Problem(path=item.path, sentence=sentence, level=level)
