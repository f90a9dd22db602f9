"""The contents of the page in their order; the template only renders them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import markupsafe

from binary_checks.documents.facts import restore
from binary_checks.errors import ProfileError
from binary_checks.model import (
    BROKE,
    CheckText,
    Fitness,
    Level,
    Outcome,
    PackageResult,
    Problem,
    RunResult,
)
from binary_checks.reports.explanation import find_page, list_fixes
from binary_checks.reports.faults import (
    FamilyFaults,
    Fault,
    count_accepted,
    count_by_family,
    fold,
    shell_path,
)
from binary_checks.reports.html.graph import Graph, draw_graph
from binary_checks.reports.html.templating import format_size, shorten
from binary_checks.reports.html.treemap import Treemap, draw_treemap
from binary_checks.reports.verdict_texts import describe_verdict, find_unrun
from binary_checks.safe_text import MOST, MOST_OF_A_RUN, one_line
from binary_checks.wording.problem_lines import summarise_accepted
from binary_checks.wording.sentences import fill_in

_NAMED, _FILES = 4, 200  # files of a fault that are shown at once, and after unfolding
_AT_ONCE = 6  # faults of a check that are shown before unfolding
_LONGEST = 1200  # characters of a sentence
_TONES = {Fitness.UNFIT: "unfit", Fitness.NOT_JUDGED: "unknown", Fitness.FIT: "fit"}
"""The tone of each verdict, in the order of packages."""
_LITERAL = re.compile("``(.+?)``|`([^`]+?)`")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownFault:
    """One fault of a package, with the files that have it."""

    sentence: str
    files: tuple[str, ...]
    others: tuple[str, ...]  # files shown after unfolding
    more: int  # number of files not shown
    also: str  # other checks that found the fault
    seen: str  # how users see it
    commands: tuple[str, ...]  # shell commands that repair the files


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownCheck:
    """The faults that one check found, why they matter, and what to do."""

    id: str
    level: str
    title: str
    why: str
    fixes: tuple[str, ...]
    page: str  # URL of the check's documentation; "" for a project's own check
    faults: tuple[ShownFault, ...]
    others: tuple[ShownFault, ...]  # faults shown after unfolding
    more: int  # number of faults not shown

    @property
    def count(self) -> int:
        """The number of all faults."""
        return len(self.faults) + len(self.others) + self.more


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """Something that was not inspected, and the checks that this affects."""

    reason: str
    checks: tuple[str, ...]
    files: tuple[str, ...] = ()
    more: int = 0  # number of files not shown
    broken: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyRow:
    """The results of one family's checks."""

    family: str
    passed: tuple[str, ...]
    problems: int
    elsewhere: bool  # whether problems are shown under the check of another family
    warnings: int
    accepted: int
    not_applicable: int
    not_inspected: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownPackage:
    """One package: its verdict, and everything on which the verdict is based."""

    anchor: str
    file_name: str
    together: bool  # whether it is a release: several packages judged together
    name: str  # name with the version; "" if nothing could be read
    verdict: str
    tone: str
    summary: str
    facts: tuple[tuple[str, str], ...]
    problems: int
    warnings: int
    checks: tuple[ShownCheck, ...]
    unpacks: bool  # whether commands apply to files of the unpacked wheel
    accepted: tuple[tuple[str, str, str], ...]  # check, sentence, reason for each
    gaps: tuple[Gap, ...]
    other_gaps: tuple[Gap, ...]  # gaps shown after unfolding
    more_gaps: int
    notes: tuple[tuple[str, str, int], ...]  # check, the first note, number of further notes
    families: tuple[FamilyRow, ...]
    graph: Graph | None
    treemap: Treemap | None
    no_pictures: str  # why there are no pictures


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """The whole page."""

    title: str
    tone: str
    tally: tuple[tuple[str, int, str], ...]  # tone, number and word for each verdict
    releases: tuple[tuple[str, str], ...]  # tone and verdict of packages judged together
    profile: str
    versions: str
    exit_code: int
    complaints: tuple[str, ...]
    remarks: tuple[str, ...]
    packages: tuple[ShownPackage, ...]


def lay_out_page(run: RunResult) -> Page:
    """Return the contents of the page, within its limits."""
    texts = {check.id: check for check in run.checks}
    ranked = sorted(run.packages, key=lambda package: [*_TONES].index(package.fitness))
    packages = tuple(_show(package, number, texts, run) for number, package in enumerate(ranked, 1))
    single = [package for package in packages if not package.together]
    found = Counter((package.tone, package.verdict) for package in single)
    tally = tuple((tone, count, word) for (tone, word), count in found.items())
    versions = (f"{name} {version}" for name, version in sorted(run.versions.items()))
    return Page(
        title=f"{_entitle(single)}{_qualify(packages)}",
        tone=packages[0].tone if packages else "unknown",
        tally=tally,
        releases=tuple((e.tone, f"{e.file_name}: {e.verdict}") for e in packages if e.together),
        profile=one_line(run.profile.source),
        versions=one_line(", ".join(versions)),
        exit_code=run.exit_code,
        complaints=tuple(map(one_line, run.complaints)),
        remarks=tuple(map(one_line, run.remarks)),
        packages=packages,
    )


def mark_up(text: str) -> markupsafe.Markup:
    """Return documentation as HTML, with literals as code and all other text escaped."""
    text = one_line(" ".join(text.split()))
    pieces, end = list[str](), 0
    for found in _LITERAL.finditer(text):
        pieces.append(str(markupsafe.escape(text[end : found.start()])))
        pieces.append(f"<code>{markupsafe.escape(found[1] or found[2])}</code>")
        end = found.end()
    return markupsafe.Markup("".join((*pieces, str(markupsafe.escape(text[end:])))))  # noqa: S704


def _entitle(packages: Sequence[ShownPackage]) -> str:
    fit = sum(package.tone in {"fit", "unrun"} for package in packages)
    if not packages:
        return "No package was judged"
    if len(packages) == 1:
        (package,) = packages
        verb = "was" if package.tone == "unknown" else "is"
        return f"{shorten(package.name or package.file_name, 120)} {verb} {package.verdict}"
    if fit == len(packages):
        return f"All {fit} packages are fit to ship"
    return f"{fit} of {len(packages)} packages are fit to ship"


def _qualify(packages: Sequence[ShownPackage]) -> str:
    """Return the rest of the title if the packages together are not fit, else ""."""
    unfit = any(each.together and each.tone == "unfit" for each in packages)
    return ", but the release is unfit" if unfit else ""


def _show(
    package: PackageResult, number: int, texts: Mapping[str, CheckText], run: RunResult
) -> ShownPackage:
    checks = tuple(show_checks(package, texts))
    graph, treemap, reason = _draw(package, run)
    fitness = package.fitness
    unrun = fitness is Fitness.FIT and find_unrun(package, texts.values())
    gaps = tuple(_gaps(package))
    problems, warnings = (
        sum(check.count for check in checks if check.level == level.value)
        for level in (Level.ERROR, Level.WARNING)
    )
    return ShownPackage(
        anchor=f"package-{number}",
        file_name=one_line(package.shown_name),
        together=package.parts > 0,
        name=one_line(f"{package.name} {package.version}".strip()),
        verdict="fit, not run" if unrun else fitness.value,
        tone="unrun" if unrun else _TONES[fitness],
        summary=_sum_up(package, fitness, texts),
        facts=tuple(_identify(package)),
        problems=problems,
        warnings=warnings,
        checks=checks,
        unpacks=any("{path}" in p.command for e in package.entries for p in e.problems),
        accepted=tuple(_accepted(package))[:MOST_OF_A_RUN],
        gaps=gaps[:_AT_ONCE],
        other_gaps=gaps[_AT_ONCE:MOST],
        more_gaps=len(gaps[MOST:]),
        notes=tuple(_notes(package)),
        families=tuple(_families(package)),
        graph=graph,
        treemap=treemap,
        no_pictures=reason,
    )


def _sum_up(package: PackageResult, fitness: Fitness, texts: Mapping[str, CheckText]) -> str:
    """Return the basis of the verdict; begin with the verdict if it has more than one word."""
    parts = describe_verdict(package, texts.values())
    return one_line(" · ".join(parts[parts[0] == fitness.value :]))


def _identify(package: PackageResult) -> Iterator[tuple[str, str]]:
    yield "Name", one_line(package.name)
    yield "Version", one_line(package.version)
    yield "Size", format_size(package.size) if package.size else ""
    yield "Object files", "" if package.objects is None else f"{package.objects:,}"
    yield "SHA-256", one_line(package.sha256)
    yield "SHA-256 of RECORD", one_line(package.record_sha256)


def show_checks(package: PackageResult, texts: Mapping[str, CheckText]) -> Iterator[ShownCheck]:
    """Yield the checks that found a fault, errors first, each with its faults."""
    by_check: dict[tuple[str, str], list[Fault]] = {}
    for fault in fold(package.entries):
        by_check.setdefault((fault.shown.check, fault.level.value), []).append(fault)
    for (check, level), faults in by_check.items():
        text = texts.get(check)
        yield ShownCheck(
            id=one_line(check),
            level=level,
            title=text.title if text else "",
            why=text.why if text else "",
            fixes=list_fixes(text, (p for fault in faults for p in fault.shown.group.problems)),
            page=find_page(check),
            faults=tuple(_show_fault(fault, package) for fault in faults[:_AT_ONCE]),
            others=tuple(_show_fault(fault, package) for fault in faults[_AT_ONCE:MOST]),
            more=len(faults[MOST:]),
        )


def _show_fault(fault: Fault, package: PackageResult) -> ShownFault:
    group = fault.shown.group
    paths = [path for path in group.paths if path]
    files = [shorten(one_line(path), 300) for path in paths[:_FILES]]
    named = _NAMED if len(files) > _NAMED + 1 else _NAMED + 1
    return ShownFault(
        sentence=shorten(one_line(group.first.sentence), _LONGEST),
        files=tuple(files[:named]),
        others=tuple(files[named:]),
        more=len(paths[_FILES:]),
        also=one_line(fault.also()),
        seen=shorten(fault.seen(), _LONGEST),
        commands=tuple(_find_commands(group.problems[:named], shell_path(package))),
    )


def _find_commands(problems: Iterable[Problem], package: str) -> Iterator[str]:
    """Yield each command once, with the file's path inserted."""
    found = (fill_in(each.command, path=each.path, package=package) for each in problems)
    yield from (command for command in dict.fromkeys(found) if command)


def _accepted(package: PackageResult) -> Iterator[tuple[str, str, str]]:
    for entry in package.entries:
        for sentence, reason in summarise_accepted(entry.accepted):
            yield one_line(entry.check), shorten(sentence, _LONGEST), reason


def _gaps(package: PackageResult) -> Iterator[Gap]:
    """Yield gaps by reason: failures first, then whole checks, then parts of checks."""
    found: dict[tuple[int, str], tuple[list[str], list[str]]] = {}
    for entry in package.entries:
        if entry.outcome in BROKE:
            found.setdefault((0, entry.reason), ([], []))[0].append(entry.check)
        elif entry.outcome is Outcome.NOT_INSPECTED and not entry.not_inspected:
            found.setdefault((1, entry.reason), ([], []))[0].append(entry.check)
        for gap in entry.not_inspected:
            checks, files = found.setdefault((2, gap.sentence), ([], []))
            checks.append(entry.check)
            files.append(gap.path)
    for (rank, reason), (checks, paths) in sorted(found.items(), key=lambda each: each[0][0]):
        files = [path for path in dict.fromkeys(paths) if path]
        yield Gap(
            reason=shorten(one_line(reason), _LONGEST),
            checks=tuple(map(one_line, dict.fromkeys(checks))),
            files=tuple(shorten(one_line(path), 300) for path in files[:_NAMED]),
            more=len(files[_NAMED:]),
            broken=not rank,
        )


def _notes(package: PackageResult) -> Iterator[tuple[str, str, int]]:
    for entry in package.entries:
        for note in entry.notes[:1]:
            message = f"{note.path}: {note.sentence}" if note.path else note.sentence
            yield one_line(entry.check), shorten(one_line(message), 300), len(entry.notes) - 1


def _families(package: PackageResult) -> Iterator[FamilyRow]:
    faults = count_by_family(package.entries)
    for family in sorted({entry.family for entry in package.entries}):
        ours = [entry for entry in package.entries if entry.family == family]
        passed = (entry.check for entry in ours if entry.outcome is Outcome.PASSED)
        found = faults.get(family, FamilyFaults())
        yield FamilyRow(
            family=one_line(family),
            passed=tuple(map(one_line, passed)),
            problems=found.errors,
            elsewhere=found.elsewhere,
            warnings=found.warnings,
            accepted=count_accepted(ours),
            not_applicable=sum(entry.outcome is Outcome.NOT_APPLICABLE for entry in ours),
            not_inspected=sum(entry.has_gap for entry in ours),
        )


def _draw(package: PackageResult, run: RunResult) -> tuple[Graph | None, Treemap | None, str]:
    """Return the pictures, or why there are none."""
    path = run.facts.get(package.node)
    if path is None:
        return None, None, _explain(run)
    try:
        stated = restore(path, edges=True)
    except ProfileError as error:
        return None, None, f"Its facts cannot be read: {error}"
    blamed = _find_blamed(package)
    graph = draw_graph(stated.package, stated.edges or (), lambda name: name in blamed)
    treemap = draw_treemap(stated.package)
    needs = any(item.needed for item in stated.package.objects)
    return graph, treemap, "" if graph else _no_graph(package, needs=needs)


def _find_blamed(package: PackageResult) -> frozenset[str]:
    """Return the words of all problems, which include names of missing libraries."""
    accepted = (each.problem for entry in package.entries for each in entry.accepted)
    found = (each for entry in package.entries for each in (*entry.problems, *entry.warnings))
    sentences = (each.sentence for each in (*accepted, *found))
    return frozenset(word.strip(",;:()") for sentence in sentences for word in sentence.split())


def _explain(run: RunResult) -> str:
    if not run.facts:
        draws = run.program.name_options("--binary-report html:FILE")
        return (
            "This page was made from a result document, which has no facts of packages. Diagrams "
            f"of needed libraries and large files are made by {draws}, and by the command `report` "
            "with --facts FILE."
        )
    return "The package was not read, so there are no facts to draw."


def _no_graph(package: PackageResult, *, needs: bool) -> str:
    if not needs:
        return "Nothing in the package needs a library, so there is no graph."
    linkage = (entry for entry in package.entries if entry.family == "linkage" and entry.has_gap)
    reason = one_line(next((entry.reason for entry in linkage if entry.reason), ""))
    return f"No loader was simulated, so there is no graph. {reason}".strip()
