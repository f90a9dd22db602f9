"""What is examined in a run: each package under a name of its own, and all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from binary_checks.declaring import Check
from binary_checks.gather.examination import Examination
from binary_checks.gather.facts import Facts
from binary_checks.lines import one_line
from binary_checks.model.protocols import Source
from binary_checks.plugin.failures import misused
from binary_checks.plugin.subjects import Named
from binary_checks.sources.release import RELEASE, ExpectedSet, ReleaseSource, make_release


def examine_all(
    sources: list[Source],
    named: Named,
    checks: tuple[Check[Any], ...],
    gather: Callable[[Source], Facts],
    expected: ExpectedSet | None,
) -> tuple[Examination, ...]:
    """An examination of each package, and one of the release where there is something to judge."""
    found = tuple(_examine(sources, named, checks, gather))
    release = _make_release(sources, named, expected, {each.node for each in found})
    if release is None and named.release is not None:
        to_do = "name two wheels of one version, or --binary-expect-set"
        raise misused(f"{RELEASE}: the packages have nothing to be compared by: {to_do}")
    if release is None:
        return found
    return (*found, _examine_release(release, named, checks, gather))


def _examine(
    sources: list[Source],
    named: Named,
    checks: tuple[Check[Any], ...],
    gather: Callable[[Source], Facts],
) -> Iterator[Examination]:
    spelled = node_ids(tuple(named.packages), named.folder)
    nodes = show_ids(spelled)
    for source in sources:
        asked = named.packages[source.path]
        bare = {name.partition("[")[0] for name in asked}  # without the place
        yield Examination(
            node=nodes[source.path],
            spelled=spelled[source.path],
            source=source,
            asked=asked,
            checks=tuple(check for check in checks if not asked or check.id in bare),
            facts=gather(source),
        )


def _make_release(
    sources: list[Source], named: Named, expected: ExpectedSet | None, nodes: Collection[str]
) -> ReleaseSource | None:
    """All packages together, unless single checks of them were asked for, and none of these."""
    if named.release is None and any(named.packages.values()):
        return None
    label = next(name for name in (RELEASE, f"all:{RELEASE}") if name not in nodes)
    return make_release(sources, expected, named.folder, label)


def _examine_release(
    release: ReleaseSource,
    named: Named,
    checks: tuple[Check[Any], ...],
    gather: Callable[[Source], Facts],
) -> Examination:
    asked = frozenset(named.release or ())
    return Examination(
        node=release.label,
        spelled=release.label,
        source=release,
        asked=asked,
        checks=tuple(check for check in checks if not asked or check.id in asked),
        facts=gather(release),
    )


def node_ids(paths: Sequence[Path], folder: Path) -> dict[Path, str]:
    """For each package a node id that no other has.

    Relative to the folder when below it, else the file name, lengthened by parents until unique.
    """
    inside = {p: p.relative_to(folder).as_posix() for p in paths if p.is_relative_to(folder)}
    names = Counter(path.name for path in paths)
    rivals = [path for path in paths if names[path.name] > 1]
    return {
        path: inside.get(path) or (_short_name(path, rivals) if names[path.name] > 1 else path.name)
        for path in paths
    }


def show_ids(ids: Mapping[Path, str]) -> dict[Path, str]:
    """The same in characters that may be shown, for pytest shows them everywhere."""
    shown: dict[str, Path] = {}
    for path, node in ids.items():
        spelled = one_line(node)
        while spelled in shown:  # two names that are alike once they may be shown
            spelled += "'"
        shown[spelled] = path
    return {path: node for node, path in shown.items()}


def _short_name(path: Path, paths: Iterable[Path]) -> str:
    rivals = [other.parts for other in paths if other != path]
    for length in range(1, len(path.parts)):
        tail = path.parts[-length:]
        if not any(rival[-length:] == tail for rival in rivals):
            return "/".join(tail)
    return path.as_posix()
