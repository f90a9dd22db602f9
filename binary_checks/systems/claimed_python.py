"""Which Python a package claims to run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from binary_checks.model import Interpreter
from binary_checks.model.packages import PYTHON_3, PythonClaim, is_python_2
from binary_checks.systems.interpreters import interpreter, interpreter_versions


def interpreter_of(
    pythons: Iterable[PythonClaim], system: str = "linux", architecture: str = "x86_64"
) -> Interpreter | None:
    """The oldest CPython that is claimed, as far as there is data about it.

    ``py3-none`` is bound to no Python: what a library there needs of one is the stable ABI at
    best, which the newest has whole. A Python 3 that is older than all data counts as the oldest
    there is: hardly a symbol was added before; the limits of abi3 are judged by their own check.
    Python 2 has another C API, of which there are no data.
    """
    claims = [each for each in pythons if each.implementation in {"cpython", ""}]
    claims = [each for each in claims if not is_python_2(each)]
    versions = [(i.version, i.free_threaded) for i in claims if i.implementation and i.version]
    generic = len(versions) < len(claims)
    known = interpreter_versions()
    if versions:
        version, free_threaded = min(versions)
    elif generic:
        version, free_threaded = known[-1], False
    else:
        return None
    return interpreter(
        max(version, known[0]),
        free_threaded=free_threaded,
        system=system,
        architecture=architecture,
    )


class Interpreters(Mapping[tuple[tuple[int, int], bool], Interpreter]):
    """The CPythons of a system, each read when it is asked for.

    A Python 3 that is older than all data counts as the oldest there is, as in `interpreter_of`.
    """

    def __init__(self, system: str = "linux", architecture: str = "x86_64") -> None:
        self._system, self._architecture = system, architecture

    def __getitem__(self, key: tuple[tuple[int, int], bool]) -> Interpreter:
        version, free_threaded = key
        if version < PYTHON_3:
            raise KeyError(key)
        found = interpreter(
            max(version, interpreter_versions()[0]),
            free_threaded=free_threaded,
            system=self._system,
            architecture=self._architecture,
        )
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[tuple[tuple[int, int], bool]]:
        keys = ((version, without) for version in interpreter_versions() for without in (0, 1))
        return (
            (version, bool(without))
            for version, without in keys
            if (version, bool(without)) in self
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def spell_interpreter(python: Interpreter | None) -> str:
    """Name an interpreter: "CPython 3.13t"."""
    if python is None:
        return ""
    suffix = "t" if python.free_threaded else ""
    return "CPython {}.{}{}".format(*python.version, suffix)
