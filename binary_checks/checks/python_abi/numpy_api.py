"""Whether extension modules fit the NumPy that the package requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, Level, Note, NumpyBuild, Package, Problem, TargetSystem
from binary_checks.model.packages import is_python_2
from binary_checks.model.python_modules import parse_extension_name
from binary_checks.model.requires_dist import applicable

_MICROS = range(10)
_FIRST = tuple((1, minor) for minor in range(7, 27))  # 1.26 is the last of the first
_SECOND = tuple((2, minor) for minor in range(60))
_OLDEST_WITH_SECOND = (3, 9)  # Python, for which there is a NumPy 2
_LONGEST = 100  # characters of a requirement in a sentence


@check
def numpy_version_mismatch(package: Package, target: TargetSystem) -> Iterator[Finding]:
    """An extension module is built for another NumPy than the package requires.

    Which one it is built for stands in the module: NumPy's headers compile the message of
    ``import_array()`` into it, and those of NumPy 2 the oldest version that it runs with. What is
    built with NumPy 1.x runs with 1.x alone; what is built with 2.x runs with both. Modules that
    use NumPy without its headers (pybind11) have no such bond, and a module of a package that does
    not require NumPy is only noted.

    Why: NumPy 2 ends the import of such a module with "A module that was compiled using NumPy 1.x
    cannot be run in NumPy 2"; an older NumPy than the oldest ends it with a RuntimeError.
    Fix: build with NumPy 2 (``build-system.requires = ["numpy>=2.0"]``), or require ``numpy<2``.
    Level: installers choose the NumPy that the module refuses. A warning for a library that is no
    extension module by its name, which may be opened for other things.
    """
    built = [(item.path, item.numpy) for item in package.objects if item.numpy is not None]
    if not built:
        raise NotApplicable("no object built with NumPy's headers")
    if canonicalize_name(package.name) == "numpy":
        raise NotApplicable("it is NumPy")
    required = [
        each.specifier
        for each in applicable(package.claims.requirements, target)
        if canonicalize_name(each.name) == "numpy"
    ]
    second = _may_have_second(package, target)
    for path, build in dict.fromkeys(built):
        if required:
            yield from _judge(path, build, required, second=second)
        elif build.api == 1:
            sentence = "is built with NumPy 1.x, which the package does not require"
            yield Note(path=path, sentence=sentence)


def _may_have_second(package: Package, target: TargetSystem) -> bool:
    """Whether there is a NumPy 2 for one of the Pythons that are claimed."""
    python = target.interpreter
    if python is not None:
        return python.version >= _OLDEST_WITH_SECOND
    pythons = package.claims.pythons
    return not pythons or not all(map(is_python_2, pythons))


def _judge(
    path: str, build: NumpyBuild, required: Sequence[SpecifierSet], *, second: bool
) -> Iterator[Problem]:
    spelled = ",".join(sorted({str(each) for each in required if str(each)}))
    asked = f"the package requires numpy{spelled[:_LONGEST]}"
    level = Level.ERROR if parse_extension_name(path) else Level.WARNING
    if build.api == 1 and second and _allow(required, _SECOND):
        sentence = f"is built with NumPy 1.x, which NumPy 2 refuses, and {asked}"
        yield Problem(path=path, sentence=f"{sentence}: installers choose NumPy 2", level=level)
    elif build.api == 2 and build.oldest:
        major, minor = map(int, build.oldest.split("."))
        if not _allow(required, [each for each in _FIRST + _SECOND if each >= (major, minor)]):
            sentence = f"is built for NumPy {build.oldest} or newer, and {asked}, which is older"
            yield Problem(path=path, sentence=sentence, level=level)


def _allow(required: Iterable[SpecifierSet], versions: Iterable[tuple[int, int]]) -> bool:
    """Whether all that is required leaves one of those versions."""
    required = tuple(required)
    return any(
        all(each.contains(f"{major}.{minor}.{micro}", prereleases=True) for each in required)
        for major, minor in versions
        for micro in _MICROS
    )
