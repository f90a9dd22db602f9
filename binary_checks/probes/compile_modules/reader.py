"""Compile the Python files of an installed package with the target interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError, NotApplicable
from binary_checks.knowledge.python_libraries import ModuleFiles, is_for_tests
from binary_checks.knowledge.tags import find_promised, states_lowest
from binary_checks.model import (
    BrokenSource,
    CompiledModules,
    Conditions,
    Distribution,
    Ending,
    EntryPoint,
    Minor,
    Place,
    ProbeAnswer,
    UnparsedSource,
    read_entry_points,
)
from binary_checks.probes.answers import describe_end, find_last_words

_PATIENCE = 3  # processes that may die; after them, the remaining files are skipped
_ALONE = Conditions(site=False, memory=2 << 30)
"""Conditions for a process that only reads installed code and does not run it."""


@gathers(CompiledModules)
def compile_modules(place: Place, package: Distribution) -> CompiledModules:
    """Compile every Python file that an import may load, except tests.

    Raises Unavailable if the package could not be installed.
    """
    files = package.derive(ModuleFiles)
    chosen = [p for name, p in files.sources.items() if not is_for_tests(name.split("."))]
    if not chosen:
        raise NotApplicable("no Python source in the package")
    place.install(package)
    place.require_installed(package)
    return compile_each(place, package, sorted(chosen))


def compile_each(place: Place, package: Distribution, paths: Sequence[str]) -> CompiledModules:
    """Compile these files of a package, given as paths in its prefix."""
    promised = find_promised(package)
    lowest = (3, min(promised)) if promised and states_lowest(package) else None
    found = _Compilation(place, package, lowest)
    found.compile(paths)
    broken, unfollowed = found.broken, ""
    if broken:
        reached, unfollowed = _follow(place, package, broken)
        broken = [replace(each, reached_from=reached.get(each.path, "")) for each in broken]
    version = place.target.version.split(".")
    return CompiledModules(
        python=place.target.name,
        version=(int(version[0]), int(version[1])),
        broken=tuple(broken),
        more_broken=found.more,
        uncompiled=tuple(found.uncompiled),
        unfollowed=unfollowed,
    )


class _Compilation:
    """The results so far, while processes start and end."""

    def __init__(self, place: Place, package: Distribution, lowest: Minor | None) -> None:
        self._place, self._package, self._lowest = place, package, lowest
        self.broken: list[BrokenSource] = []
        self.uncompiled: list[UnparsedSource] = []
        self.more = 0

    def compile(self, paths: Sequence[str]) -> None:
        """Compile all files; if a file kills the process, continue after it in a new process."""
        for _ in range(_PATIENCE):
            result = self._run(paths)
            if self._read(result, paths):
                return
            culprit = result.answer.get("current")
            if not isinstance(culprit, int) or not 0 <= culprit < len(paths):
                last = find_last_words(result)
                raise GatherError(f"the compilation probe ended without an answer: {last}")
            if culprit and not self._read(self._run(paths[:culprit]), paths):
                self._leave(paths[:culprit], "its compilation ends differently each time")
            died = f"compiling it {_describe_death(result, self._place)}"
            self._leave(paths[culprit : culprit + 1], died)
            paths = paths[culprit + 1 :]
        self._leave(
            paths, "not compiled, because the compiler crashed or hung on too many other files"
        )

    def _run(self, paths: Sequence[str]) -> ProbeAnswer:
        inside = [self._package.layout.inside(path) for path in paths]
        asked = {"step": "compile", "files": inside, "lowest": self._lowest}
        return self._place.run("compile_modules", asked, conditions=_ALONE)

    def _read(self, result: ProbeAnswer, paths: Sequence[str]) -> bool:
        """Add the results of a process; return False if it did not finish."""
        rows = result.answer.get("broken")
        if not isinstance(rows, list):
            return False
        for row in rows:
            path = paths[int(row["number"])]
            if "lack" in row:
                self._leave([path], str(row["lack"]))
                continue
            broken = BrokenSource(
                path=path,
                line=int(row["line"]),
                reason=str(row["reason"]),
                text=str(row["text"]),
                newer_than=self._lowest if row["newer"] else None,
            )
            self.broken.append(broken)
        self.more += int(result.answer.get("more", 0))
        return True

    def _leave(self, paths: Sequence[str], reason: str) -> None:
        self.uncompiled += [UnparsedSource(path=path, reason=reason) for path in paths]


def _describe_death(result: ProbeAnswer, place: Place) -> str:
    words = {Ending.HUNG: "takes longer than", Ending.CRASHED: "crashes the interpreter:"}
    return f"{words.get(result.outcome, 'ends:')} {describe_end(result, place)}"


def _follow(
    place: Place, package: Distribution, broken: Sequence[BrokenSource]
) -> tuple[Mapping[str, str], str]:
    """Find the broken files that are imported whenever some module of the package is imported.

    That is a module that users import, or for files that compile on no Python any sound module.

    Return the name of such a module for each of these files. Also return why the search may be
    incomplete, or "" if it is complete.
    """
    files = package.derive(ModuleFiles)
    modules = {name: package.layout.inside(path) for name, path in files.sources.items()}
    points = read_entry_points(package)
    referred = {point.module for point in points if isinstance(point, EntryPoint)}
    wanted = {package.layout.inside(each.path): each.path for each in broken}
    never = [package.layout.inside(each.path) for each in broken if each.newer_than is None]
    others = [n for n, p in modules.items() if p not in wanted and not is_for_tests(n.split("."))]
    asked = {
        "step": "follow",
        "modules": modules,
        "wanted": list(wanted),
        "never": never,
        "others": sorted(others),
        "roots": [*sorted(files.roots), *sorted(referred)],
    }
    result = place.run("compile_modules", asked, conditions=_ALONE)
    reached = result.answer.get("reached")
    if not isinstance(reached, dict):
        return {}, f"following the imports {_describe_death(result, place)}"
    known = {wanted[path]: str(root) for path, root in reached.items() if path in wanted}
    complete = result.answer.get("complete") is True
    return known, "" if complete else "some files with imports cannot be parsed"
