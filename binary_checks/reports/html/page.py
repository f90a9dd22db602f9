"""The contents of the page: what the template cannot find in the run's results by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from binary_checks.documents.facts import restore
from binary_checks.errors import ProfileError
from binary_checks.model import (
    BROKE,
    CheckText,
    Fitness,
    Level,
    Outcome,
    PackageResult,
    RunResult,
)
from binary_checks.reports.explanation import list_fixes
from binary_checks.reports.faults import (
    Fault,
    count_accepted,
    count_by_family,
    count_levels,
    fold,
)
from binary_checks.reports.html.graph import Graph, draw_graph
from binary_checks.reports.html.templating import prepare, read_own
from binary_checks.reports.html.treemap import Treemap, draw_treemap
from binary_checks.reports.verdict_texts import describe_verdict, find_unrun
from binary_checks.safe_text import MOST_OF_A_RUN, one_line
from binary_checks.wording.problem_lines import summarise_accepted

_TONES = {Fitness.UNFIT: "unfit", Fitness.NOT_JUDGED: "unknown", Fitness.FIT: "fit"}
"""The tone of each verdict, in the order of packages."""


class ShownCheck(NamedTuple):
    """The faults that one check found in a package, why they matter, and what to do."""

    package: PackageResult
    id: str
    level: Level
    text: CheckText | None
    fixes: tuple[str, ...]
    faults: list[Fault]


class ShownPackage(NamedTuple):
    """One package: its results, and what follows from them."""

    result: PackageResult
    verdict: str
    tone: str
    summary: str  # the basis of the verdict; with the verdict if it has more than one word
    levels: Counter[Level]
    checks: list[ShownCheck]
    unpacks: bool  # whether commands apply to files of the unpacked wheel
    accepted: list[tuple[str, str, str]]  # check, sentence, reason for each
    gaps: list[tuple[bool, str, list[str], list[str]]]  # broke, reason, checks, files
    graph: Graph | None
    treemap: Treemap | None
    no_pictures: str  # why there are no pictures


def generate_page(run: RunResult) -> Iterator[str]:
    """Yield the page in pieces."""
    environment = prepare("binary_checks.reports.html")
    style, source = read_own(environment, "page.css")
    texts = {check.id: check for check in run.checks}
    ranked = sorted(run.packages, key=lambda package: [*_TONES].index(package.fitness))
    yield from environment.get_template("page.html").generate(
        run=run,
        packages=[_show(package, texts, run) for package in ranked],
        style=style,
        style_source=source,
        Level=Level,
        Outcome=Outcome,
        count_accepted=count_accepted,
        count_by_family=count_by_family,
    )


def _show(package: PackageResult, texts: Mapping[str, CheckText], run: RunResult) -> ShownPackage:
    fitness = package.fitness
    unrun = fitness is Fitness.FIT and find_unrun(package, texts.values())
    parts = describe_verdict(package, texts.values())
    graph, treemap, reason = _draw(package, run)
    accepted = [
        (entry.check, *each)
        for entry in package.entries
        for each in summarise_accepted(entry.accepted)
    ]
    return ShownPackage(
        result=package,
        verdict="fit, not run" if unrun else fitness.value,
        tone="unrun" if unrun else _TONES[fitness],
        summary=" · ".join(parts[parts[0] == fitness.value :]),
        levels=count_levels(package.entries),
        checks=[*show_checks(package, texts)],
        unpacks=any("{path}" in p.command for e in package.entries for p in e.problems),
        accepted=accepted[:MOST_OF_A_RUN],
        gaps=_group_gaps(package),
        graph=graph,
        treemap=treemap,
        no_pictures=reason,
    )


def show_checks(package: PackageResult, texts: Mapping[str, CheckText]) -> Iterator[ShownCheck]:
    """Yield the checks that found a fault, errors first, each with its faults."""
    by_check: dict[tuple[str, Level], list[Fault]] = {}
    for fault in fold(package.entries):
        by_check.setdefault((fault.shown.check, fault.level), []).append(fault)
    for (check, level), faults in by_check.items():
        problems = (problem for fault in faults for problem in fault.shown.group.problems)
        fixes = list_fixes(texts.get(check), problems)
        yield ShownCheck(package, check, level, texts.get(check), fixes, faults)


def _group_gaps(package: PackageResult) -> list[tuple[bool, str, list[str], list[str]]]:
    """Return gaps by reason: failures first, then whole checks, then parts of checks."""
    found: dict[tuple[int, str], tuple[dict[str, None], dict[str, None]]] = {}
    for entry in package.entries:
        gaps = [(2, gap.sentence, gap.path) for gap in entry.not_inspected]
        if entry.outcome in BROKE:
            gaps.append((0, entry.reason, ""))
        elif entry.outcome is Outcome.NOT_INSPECTED and not gaps:
            gaps.append((1, entry.reason, ""))
        for rank, reason, path in gaps:
            checks, files = found.setdefault((rank, reason), ({}, {}))
            checks[entry.check] = None
            files[path] = None
    return [
        (rank == 0, reason, [*checks], [*filter(None, files)])
        for (rank, reason), (checks, files) in sorted(found.items(), key=lambda each: each[0][0])
    ]


def _draw(package: PackageResult, run: RunResult) -> tuple[Graph | None, Treemap | None, str]:
    """Return the pictures, or why there are none."""
    path = run.facts.get(package.node)
    if path is None and run.facts:
        return None, None, "The package was not read, so there are no facts to draw."
    if path is None:
        draws = run.program.name_options("--binary-report html:FILE")
        reason = (
            "This page was made from a result document, which has no facts of packages. Diagrams "
            f"of needed libraries and large files are made by {draws}, and by the command `report` "
            "with --facts FILE."
        )
        return None, None, reason
    try:
        stated = restore(path, edges=True)
    except ProfileError as error:
        return None, None, f"Its facts cannot be read: {error}"
    blamed = _find_blamed(package)
    graph = draw_graph(stated.package, stated.edges or (), lambda name: name in blamed)
    reason = ""
    if not any(item.needed for item in stated.package.objects):
        reason = "Nothing in the package needs a library, so there is no graph."
    elif graph is None:
        gaps = (each for each in package.entries if each.family == "linkage" and each.has_gap)
        why = one_line(next((entry.reason for entry in gaps if entry.reason), ""))
        reason = f"No loader was simulated, so there is no graph. {why}".strip()
    return graph, draw_treemap(stated.package), "" if graph else reason


def _find_blamed(package: PackageResult) -> frozenset[str]:
    """Return the words of all problems, which include names of missing libraries."""
    accepted = (each.problem for entry in package.entries for each in entry.accepted)
    found = (each for entry in package.entries for each in (*entry.problems, *entry.warnings))
    sentences = (each.sentence for each in (*accepted, *found))
    return frozenset(word.strip(",;:()") for sentence in sentences for word in sentence.split())
