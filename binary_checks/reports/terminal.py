"""A run as text: a verdict for each package with its problems, and a final count.

On a terminal lines are wrapped; elsewhere each problem is one line. The number of shown problems is
limited; documents contain all problems.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TextIO

from binary_checks.model import (
    BROKE,
    CheckText,
    Fitness,
    Level,
    PackageResult,
    RunResult,
)
from binary_checks.profile import is_follow_up
from binary_checks.reports.explanation import list_fixes, remedy
from binary_checks.reports.faults import Fault, fault_line, fold, shell_path
from binary_checks.reports.ledger import ACCEPTING
from binary_checks.reports.verdict_texts import (
    count,
    count_verdicts,
    describe_verdict,
    find_gaps,
    find_unrun,
)
from binary_checks.safe_text import MOST, MOST_OF_A_RUN, cut, elide, one_line
from binary_checks.wording.problem_lines import accepted_lines, summarise_gap
from binary_checks.wording.sentences import describe_origin, fill_in

# Layout: the width, colours and characters of the output.

_CODES = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "bold": 1, "dim": 2}
_ROOM = 24  # columns; with fewer, text next to a margin is harder to read than text below it


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLayout:
    """The output's capabilities; the defaults are for a pipe: complete lines, no colours."""

    columns: int = 0  # columns of a terminal; 0: lines are never wrapped
    colours: bool = False
    ascii: bool = False  # whether the output can show only ASCII characters

    @property
    def dot(self) -> str:
        """The separator between the parts of a verdict."""
        return " - " if self.ascii else " \u00b7 "

    def paint(self, text: str, *styles: str) -> str:
        """Return the text with these styles, or the plain text if there are no colours."""
        if not (self.colours and text):
            return text
        codes = ";".join(str(_CODES[style]) for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def leaves_room(self, margin: int) -> bool:
        """Return whether text next to a margin of that width is still readable."""
        return self.columns - margin >= _ROOM

    def wrap(self, text: str, margin: int, hanging: int = 0) -> Iterator[str]:
        """Yield the text in lines that fit next to a margin; the lines do not contain the margin.

        Lines after the first are indented by ``hanging`` more columns. Names and paths are not
        broken.
        """
        width = max(self.columns - margin, 1) if self.columns else len(text) + 1
        yield from textwrap.wrap(
            text,
            width,
            subsequent_indent=" " * hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def elide(self, text: str, margin: int = 0) -> str:
        """Return the text, shortened in its middle if it does not fit next to the margin."""
        return elide(text, self.columns - margin, ascii_only=self.ascii) if self.columns else text


# The text of a run.

_COLOURS = {Fitness.FIT: "green", Fitness.UNFIT: "red", Fitness.NOT_JUDGED: "yellow"}
_VERDICT = 56  # columns of most verdicts
_SCREEN = {Level.ERROR: 10, Level.WARNING: 3}  # faults of one package that a terminal shows
# faults of one check that a terminal shows for a package
_ALIKE = {Level.ERROR: 3, Level.WARNING: 1}
_WIDE = 100  # columns from which text is placed next to ids instead of below them
_INDENT = 2
_COMMAND = "run: "
_AROUND = {
    "unpack:": "wheel unpack {package} && cd {path}",
    "repack:": "cd .. && wheel pack {path}",
}


def write(run: RunResult, out: TextIO) -> None:
    """Write the run as plain text."""
    text = RunText(run.checks)
    for package in run.packages:
        out.writelines(f"{line}\n" for line in text.iter_package(package))
    out.writelines(f"{line}\n" for line in text.close(run))


class RunText:
    """Writes packages one after another; advice for several packages is given only once."""

    def __init__(
        self,
        checks: Iterable[CheckText],
        layout: PageLayout = PageLayout(),
        names: Iterable[str] = (),
        paths: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``names`` are the file names of all packages, by which verdicts are aligned.

        ``paths`` are the packages' paths by node, for commands.
        """
        self._paths = paths
        self._checks = {check.id: check for check in checks}
        self._layout = layout
        self._names = _fit_names(list(dict.fromkeys(map(one_line, names))), layout)
        self._advised: set[str] = set()  # remedies that were given
        # commands that were given, by package and check
        self._commands: dict[tuple[str, str], list[str]] = {}
        self._unpacked: set[str] = set()  # packages whose files must be repaired
        # reasons for not judging a package that were already given
        self._explained: set[str] = set()
        self._left = MOST_OF_A_RUN  # faults that may still be shown
        self._hidden = 0
        self._first = ""  # the check that the command in the last line names
        self._first_is_grave = False  # whether that check found an error

    @property
    def _wraps(self) -> bool:
        return self._layout.columns > 0

    def iter_package(self, package: PackageResult) -> Iterator[str]:
        """Yield the verdict on a package, then each of its faults."""
        yield from self._verdict(package)
        if package.provenance is not None:
            yield from self._indented(cut(one_line(describe_origin(package.provenance))))
        faults = fold(package.entries)
        shown = self._choose(faults)
        width = max((len(fault.shown.check) for fault in shown), default=0)
        for before, fault in zip((None, *shown), shown, strict=False):
            self._note_first(fault)
            if self._wraps:
                yield from self._block(package, fault, width, before.shown.check if before else "")
            else:
                yield from self._lines(package, fault)
        if hidden := Counter(fault.shown.check for fault in faults if fault not in shown):
            self._hidden += hidden.total()
            yield f"  and {hidden.total():,} more ({', '.join(hidden)})"
        if package.node in self._unpacked:
            yield from self._repack(package)
        yield from self._list_remarks(package)

    def _note_first(self, fault: Fault) -> None:
        """Remember the check to explain in the last line: that of an error, if there is one."""
        grave = fault.level is Level.ERROR
        if fault.shown.check in self._checks and (not self._first or grave > self._first_is_grave):
            self._first, self._first_is_grave = fault.shown.check, grave

    def _verdict(self, package: PackageResult) -> Iterator[str]:
        layout, fitness = self._layout, package.fitness
        word, *rest = describe_verdict(package, self._checks.values())
        if fitness is Fitness.NOT_JUDGED and word in self._explained:
            word = f"{fitness.value}, as above"
        self._explained.add(word)
        name, text = one_line(package.shown_name), cut(layout.dot.join((word, *rest)))
        if not layout.columns:
            yield f"{name}: {self._paint(text, fitness)}"
            return
        name = self._names.get(name, name)
        margin = len(name) + 2
        if layout.leaves_room(margin):
            lines = layout.wrap(text, margin)
            yield f"{name}  {self._paint(next(lines), fitness)}"
        else:
            margin, lines = _INDENT, layout.wrap(text, _INDENT)
            yield name.rstrip()
            yield f"{'':{margin}}{self._paint(next(lines), fitness)}"
        yield from (f"{'':{margin}}{line}" for line in lines)

    def _paint(self, text: str, fitness: Fitness) -> str:
        """Colour the verdict at the start of a text, and the part that mentions a gap."""
        word, gap_in_it = fitness.value, ", but not run"
        rest = text.removeprefix(word)
        after = rest.removeprefix(gap_in_it)
        gap = self._layout.paint(gap_in_it, "yellow") if after != rest else ""
        return f"{self._layout.paint(word, _COLOURS[fitness], 'bold')}{gap}{after}"

    def _choose(self, faults: tuple[Fault, ...]) -> list[Fault]:
        """Return the faults to show, within the limits of a check, a screen, and a run."""
        found = Counter[Level | tuple[Level, str]]()
        shown = []
        for fault in faults:
            key = (fault.level, fault.shown.check)
            most = _ALIKE[fault.level] if self._wraps else MOST
            room = found[fault.level] < _SCREEN[fault.level] or not self._wraps
            if room and found[key] < most and self._left > 0:
                found.update((fault.level, key))
                self._left -= 1
                shown.append(fault)
        return shown

    def _lines(self, package: PackageResult, fault: Fault) -> Iterator[str]:
        """Yield a fault as one complete line."""
        check, line = fault.shown.check, cut(fault_line(package.shown_name, fault))
        yield self._layout.paint(check, _colour(fault)).join(line.split(check, 1))
        if seen := fault.seen():
            yield cut(f"  users see: {seen}")
        yield from (f"  {line}" for line in self._advise(package, fault))

    def _block(
        self, package: PackageResult, fault: Fault, width: int, before: str
    ) -> Iterator[str]:
        """Yield the check's id with the fault next to it; leave out an id equal to ``before``."""
        check, layout = fault.shown.check, self._layout
        width = width if layout.columns >= _WIDE else len(check)
        label = f"{'':{_INDENT}}{check * (check != before):{width}}  "
        margin = len(label) if layout.columns >= _WIDE else 2 * _INDENT
        first, *others = self._body(package, fault, margin, len(label))
        if not layout.leaves_room(len(label)):
            if check != before:
                yield label.rstrip().replace(check, layout.paint(check, _colour(fault)))
            label = " " * margin
        yield f"{label.replace(check, layout.paint(check, _colour(fault)))}{first}"
        yield from (f"{'':{margin}}{line}" for line in others)

    def _body(self, package: PackageResult, fault: Fault, margin: int, first: int) -> Iterator[str]:
        """Yield the text next to a check's id; the margin of the first line may differ."""
        layout, paths = self._layout, [one_line(path) for path in fault.shown.group.paths if path]
        first = first if layout.leaves_room(first) else margin
        if paths:
            more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
            path = layout.elide(paths[0], first + len(more))
            yield f"{layout.paint(path, 'bold')}{more}"
        text = cut(one_line(fault.shown.group.first.sentence))
        yield from layout.wrap(text, margin if paths else first)
        if fault.also():
            yield from layout.wrap(f"also: {one_line(fault.also())}", margin, 6)
        if seen := fault.seen():
            yield from layout.wrap(f"users see: {cut(seen)}", margin, 11)
        for line in self._advise(package, fault):
            command = line.startswith(_COMMAND)  # users copy commands, so they are not wrapped
            start, *others = [line] if command else layout.wrap(line, margin, 5)
            label, colon, rest = start.partition(":")
            yield f"{layout.paint(f'{label}{colon}', 'cyan')}{rest}"
            yield from others

    def _advise(self, package: PackageResult, fault: Fault) -> Iterator[str]:
        """Yield what to do: a command for the file, or else a remedy for an error, only once."""
        check = fault.shown.check
        first = fault.shown.group.first
        if is_follow_up(first) or first.is_gap:
            return
        if command := self._find_command(package, fault):
            given = self._commands.setdefault((package.node, check), [])
            if command not in given and len(given) < _ALIKE[Level.ERROR]:
                given.append(command)
                yield f"{_COMMAND}{command}"
            return
        if fault.level is not Level.ERROR:
            return
        (fix,) = list_fixes(self._checks.get(check), (first,)) or ("",)
        if fix not in self._advised and (text := remedy(fix)):
            self._advised.add(fix)
            yield f"fix: {text}"

    def _find_command(self, package: PackageResult, fault: Fault) -> str:
        """Return a shell command that repairs a fault of a wheel, for the first faulty file."""
        group = fault.shown.group
        if not package.file_name.endswith(".whl"):
            return ""
        path, wheel = group.first.path, self._find_path(package)
        command = fill_in(group.first.command, path=path, package=wheel)
        if not command or "{path}" not in group.first.command:
            return command
        self._unpacked.add(package.node)
        more = len(group.paths) - 1
        return f"{command}  # and {count(more, 'more file')}" if more else command

    def _find_path(self, package: PackageResult) -> str:
        """Return the package's path for commands; for a published package its file name."""
        return shell_path(package, self._paths.get(package.node, ""))

    def _repack(self, package: PackageResult) -> Iterator[str]:
        """Yield the commands that unpack a wheel, for repairs of its files, and repack it."""
        names = {"path": "-".join(package.file_name.split("-")[:2])}
        names["package"] = self._find_path(package)
        for label, template in _AROUND.items():
            yield f"  {self._layout.paint(label, 'cyan')} {fill_in(template, **names)}"

    def _list_remarks(self, package: PackageResult) -> Iterator[str]:
        """Yield failures other than problems, and the accepted problems."""
        lines: list[str] = []
        for entry in package.entries:
            name = "" if self._wraps else package.shown_name
            lines += accepted_lines(entry.check, name, entry.accepted)
        if package.fitness is Fitness.UNFIT:
            broke = (e for e in package.entries if e.outcome in BROKE)
            lines += dict.fromkeys(f"not judged wholly: {entry.reason}" for entry in broke)
        for line in lines[:MOST]:
            yield from self._indented(cut(one_line(line)))
        if more := len(lines[MOST:]):
            yield f"  and {more:,} more"

    def _indented(self, line: str) -> Iterator[str]:
        if not self._layout.columns:
            yield line
            return
        yield from (f"{'':{_INDENT}}{part}" for part in self._layout.wrap(line, _INDENT, _INDENT))

    def close(self, run: RunResult, seconds: float | None = None) -> Iterator[str]:
        """Yield the count of verdicts, remarks on the run, and finally everything not judged."""
        layout, packages = self._layout, run.packages
        verdict_of = {one_line(package.shown_name): package.fitness for package in packages}
        for line in run.complaints:
            if verdict_of.get(line.partition(": ")[0]) is not Fitness.NOT_JUDGED:
                yield from (layout.paint(part, "red") for part in layout.wrap(line, 0, _INDENT))
        if any(line.endswith(ACCEPTING) for line in run.complaints):
            yield from layout.wrap(ACCEPTING, 0, _INDENT)
        if self._hidden:
            again = "the same command with --binary-report json:result.json writes all"
            yield from layout.wrap(
                run.program.name_options(f"{self._hidden:,} not shown; {again}"), 0
            )
        yield from self._count(packages, seconds)
        for line in run.remarks:
            yield from layout.wrap(one_line(line), 0, _INDENT)
        if lacking := "; ".join(self._lacking(packages)):
            text = cut(f"{lacking}; -v says all")
            yield from (layout.paint(part, "yellow") for part in layout.wrap(text, 0, _INDENT))

    def _count(self, packages: tuple[PackageResult, ...], seconds: float | None) -> Iterator[str]:
        layout = self._layout
        digits = 0 if seconds is None or seconds >= 10 else 1
        took = "" if seconds is None else f"{layout.dot}{seconds:,.{digits}f} s"
        line = f"{count_verdicts(packages)}{took}"
        why = f"why: binary-checks --explain {self._first}" if self._first else ""
        if why and layout.columns and len(line) + 4 + len(why) > layout.columns:
            yield from layout.wrap(line, 0, _INDENT)
            yield why
        else:
            yield f"{line}    {why}".rstrip()

    def _lacking(self, packages: Iterable[PackageResult]) -> Iterator[str]:
        """Yield the gaps: packages that did not run, and failed inspections."""
        checks = self._checks.values()
        judged = [each for each in packages if each.fitness is not Fitness.NOT_JUDGED]
        unrun = [
            _drop_repetition(why, each) for each in judged if (why := find_unrun(each, checks))
        ]
        if unrun:
            yield _summarise("not run", unrun, "package", len(packages := [*packages]) > 1)
        gaps = [
            _drop_repetition(summarise_gap(entry.not_inspected) or entry.reason, each)
            for each in judged
            for entry in find_gaps(each, checks)
            # a gap that is shown as a problem is not repeated
            if not any(problem.is_gap for problem in entry.problems)
        ]
        if gaps:
            yield _summarise("not inspected", gaps, "check", True)


def _colour(fault: Fault) -> str:
    return "red" if fault.level is Level.ERROR else "yellow"


def _summarise(word: str, reasons: list[str], noun: str, counted: bool) -> str:
    (reason, _), *others = Counter(reasons).most_common()
    more = f" (and {count(len(others), 'other reason')})" if others else ""
    return f"{word}{f', {count(len(reasons), noun)}' * counted}: {one_line(reason)}{more}"


def _drop_repetition(reason: str, package: PackageResult) -> str:
    """Return the reason without text that a problem of the package already shows."""
    head, _, rest = reason.partition(": ")
    texts = (problem.sentence for entry in package.entries for problem in entry.problems)
    return head if rest and any(each.endswith(rest) for each in texts) else reason


def _fit_names(names: list[str], layout: PageLayout) -> dict[str, str]:
    """Return names shortened to the same width, unless two names would then be equal."""
    longest = max(map(len, names), default=0)
    room = max(layout.columns * 45 // 100, layout.columns - _VERDICT - 2)
    width = min(longest, room)
    short = {name: elide(name, width, ascii_only=layout.ascii) for name in names}
    if len(set(short.values())) < len(names):
        width, short = longest, {name: name for name in names}
    return {name: text.ljust(width) for name, text in short.items()}
