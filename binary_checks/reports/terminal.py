"""A run as text: a verdict for each package, with its problems below it, and a closing count.

On a terminal it is wrapped; elsewhere each problem is one line. What is shown of it is bounded:
documents have all.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TextIO

from binary_checks.lines import MOST, MOST_OF_A_RUN, cut, one_line
from binary_checks.model import (
    CheckText,
    Entry,
    Level,
    PackageResult,
    RunResult,
)
from binary_checks.model.outcomes import BROKE, Fitness
from binary_checks.profile.known import is_follow_up
from binary_checks.reports.explanation import remedy
from binary_checks.reports.faults import Fault, fault_line, fold, shell_path
from binary_checks.reports.ledger import ACCEPTING
from binary_checks.reports.verdict_texts import (
    count,
    count_verdicts,
    find_gaps,
    find_unrun,
    spell_verdict,
)
from binary_checks.wording.problem_lines import accepted_line, summarise_gap
from binary_checks.wording.sentences import describe_origin, fill_in

# How text is laid out where it is read: its width, its colours, and the characters it may have.

_CODES = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "bold": 1, "dim": 2}
_ROOM = 24  # columns below which text beside a margin is harder to read than below it


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLayout:
    """What the reader's end can show; as it is, a pipe: whole lines, no colours."""

    columns: int = 0  # of a terminal; 0: a line stays one, however long
    colours: bool = False
    ascii: bool = False  # whether it has no other characters

    @property
    def dot(self) -> str:
        """What stands between the parts of a verdict."""
        return " - " if self.ascii else " \u00b7 "

    def paint(self, text: str, *styles: str) -> str:
        """The text in these colours, where there are any."""
        if not (self.colours and text):
            return text
        codes = ";".join(str(_CODES[style]) for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def leaves_room(self, margin: int) -> bool:
        """Whether text beside a margin of that width still reads well."""
        return self.columns - margin >= _ROOM

    def wrap(self, text: str, margin: int, hanging: int = 0) -> Iterator[str]:
        """The text in lines that fit beside the margin, which they have not yet.

        Those after the first stand further in by ``hanging``. Names and paths are not broken.
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
        """The text with its middle left out where it does not fit beside the margin."""
        return elide(text, self.columns - margin, ascii_only=self.ascii) if self.columns else text


def elide(text: str, width: int, *, ascii_only: bool = False) -> str:
    """The text with its middle left out where it is longer than that; its end says more."""
    gap = "..." if ascii_only else "\u2026"
    kept = max(width, 12) - len(gap)
    if len(text) <= kept + len(gap):
        return text
    head = kept * 2 // 5
    return f"{text[:head]}{gap}{text[len(text) - (kept - head) :]}"


# A run as text: a verdict for each package, with its problems below it, and a closing count.
#
# On a terminal it is wrapped; elsewhere each problem is one line. What is shown of it is bounded:
# documents have all.

name = "terminal"
of_facts = uses_facts = False

_COLOURS = {Fitness.FIT: "green", Fitness.UNFIT: "red", Fitness.NOT_JUDGED: "yellow"}
_VERDICT = 56  # columns of most verdicts
_SCREEN = {Level.ERROR: 10, Level.WARNING: 3}  # faults of one package that a terminal shows
_ALIKE = {Level.ERROR: 3, Level.WARNING: 1}  # faults of one check among them
_WIDE = 100  # columns, from which on text stands beside ids and not below them
_INDENT = 2
_COMMAND = "run: "
_AROUND = {
    "unpack:": "wheel unpack {package} && cd {path}",
    "repack:": "cd .. && wheel pack {path}",
}


def write(run: RunResult, out: TextIO) -> None:
    """Write it as plain text."""
    text = RunText(run.checks)
    for package in run.packages:
        out.writelines(f"{line}\n" for line in text.tell(package))
    out.writelines(f"{line}\n" for line in text.close(run))


class RunText:
    """Tells of packages one after the other; what holds for several is said of the first."""

    def __init__(
        self,
        checks: Iterable[CheckText],
        layout: PageLayout = PageLayout(),
        names: Iterable[str] = (),
        paths: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``names`` are the file names of all packages: verdicts stand below each other.

        ``paths`` say by node where they lie, for commands.
        """
        self._paths = paths
        self._checks = {check.id: check for check in checks}
        self._layout = layout
        self._names = _fit_names(list(dict.fromkeys(map(one_line, names))), layout)
        self._advised: set[str] = set()  # checks whose remedy has been given
        self._commands: dict[tuple[str, str], list[str]] = {}  # given, by package and check
        self._unpacked: set[str] = set()  # packages of which files are to be mended
        self._explained: set[str] = set()  # reasons for not judging a package that were given
        self._left = MOST_OF_A_RUN  # faults that may still be shown
        self._hidden = 0
        self._first = ""  # the check that is explained by the command at the end

    @property
    def _wraps(self) -> bool:
        return self._layout.columns > 0

    def tell(self, package: PackageResult) -> Iterator[str]:
        """The verdict on a package, then each of its faults."""
        yield from self._verdict(package)
        if package.provenance is not None:
            yield from self._indented(cut(one_line(describe_origin(package.provenance))))
        faults = fold(package.entries)
        shown = self._choose(faults)
        width = max((len(fault.shown.check) for fault in shown), default=0)
        for before, fault in zip((None, *shown), shown, strict=False):
            self._first = self._first or fault.shown.check * (fault.shown.check in self._checks)
            if self._wraps:
                yield from self._block(package, fault, width, before.shown.check if before else "")
            else:
                yield from self._lines(package, fault)
        if hidden := Counter(fault.shown.check for fault in faults if fault not in shown):
            self._hidden += hidden.total()
            yield f"  and {hidden.total():,} more ({', '.join(hidden)})"
        if package.node in self._unpacked:
            yield from self._repack(package)
        yield from self._beside(package)

    def _verdict(self, package: PackageResult) -> Iterator[str]:
        layout, fitness = self._layout, package.fitness
        word, *rest = spell_verdict(package, self._checks.values())
        if fitness is Fitness.NOT_JUDGED and word in self._explained:
            word = f"{fitness.value}, as above"
        self._explained.add(word)
        name, text = one_line(package.file_name), cut(layout.dot.join((word, *rest)))
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
        """Colour the verdict at the beginning of a text, and that there is a gap in it."""
        word, gap_in_it = fitness.value, ", but not run"
        rest = text.removeprefix(word)
        after = rest.removeprefix(gap_in_it)
        told = self._layout.paint(gap_in_it, "yellow") if after != rest else ""
        return f"{self._layout.paint(word, _COLOURS[fitness], 'bold')}{told}{after}"

    def _choose(self, faults: tuple[Fault, ...]) -> list[Fault]:
        """Those that are shown: so many of a check, of a screen, and of the run."""
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
        """One line that is complete by itself."""
        check, line = fault.shown.check, cut(fault_line(package.file_name, fault))
        yield self._layout.paint(check, _colour(fault)).join(line.split(check, 1))
        yield from (f"  {line}" for line in self._advise(package, fault))

    def _block(
        self, package: PackageResult, fault: Fault, width: int, before: str
    ) -> Iterator[str]:
        """The id of the check, where it is not that of the fault before; beside it the rest."""
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
        """What stands beside the id of a check; the first line has a margin of its own."""
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
        for line in self._advise(package, fault):
            command = line.startswith(_COMMAND)  # which is copied, and stays whole
            start, *others = [line] if command else layout.wrap(line, margin, 5)
            label, colon, rest = start.partition(":")
            yield f"{layout.paint(f'{label}{colon}', 'cyan')}{rest}"
            yield from others

    def _advise(self, package: PackageResult, fault: Fault) -> Iterator[str]:
        """What to do about an error: a command for this very file, or else in words, once."""
        check = fault.shown.check
        first = fault.shown.group.first
        if fault.level is not Level.ERROR or is_follow_up(first) or first.is_gap:
            return
        if command := self._find_command(package, fault):
            given = self._commands.setdefault((package.node, check), [])
            if command not in given and len(given) < _ALIKE[Level.ERROR]:
                given.append(command)
                yield f"{_COMMAND}{command}"
            return
        if check in self._advised or check not in self._checks:
            return
        self._advised.add(check)
        if text := remedy(self._checks[check]):
            yield f"fix: {text}"

    def _find_command(self, package: PackageResult, fault: Fault) -> str:
        """What mends a fault of a wheel in a shell; of several files that of the first."""
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
        """What a command takes for the package's file; of a published one its name."""
        return shell_path(package, self._paths.get(package.node, ""))

    def _repack(self, package: PackageResult) -> Iterator[str]:
        """How a wheel is unpacked for the commands on its files, and packed again."""
        names = {"path": "-".join(package.file_name.split("-")[:2])}
        names["package"] = self._find_path(package)
        for label, template in _AROUND.items():
            yield f"  {self._layout.paint(label, 'cyan')} {fill_in(template, **names)}"

    def _beside(self, package: PackageResult) -> Iterator[str]:
        """What broke although there are problems too, and what is accepted."""
        lines = [*_accepted(package, "" if self._wraps else package.file_name)]
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
        """The count of verdicts, what else there is to say of the run, and last what it lacks."""
        layout, packages = self._layout, run.packages
        verdict_of = {one_line(package.file_name): package.fitness for package in packages}
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
        """What could not be judged: what did not run, and what could not be inspected."""
        checks = self._checks.values()
        judged = [each for each in packages if each.fitness is not Fitness.NOT_JUDGED]
        unrun = [_say_once(why, each) for each in judged if (why := find_unrun(each, checks))]
        if unrun:
            yield _summarise("not run", unrun, "package", len(packages := [*packages]) > 1)
        gaps = [
            _say_once(_reason(entry), each)
            for each in judged
            for entry in find_gaps(each, checks)
            if not any(problem.is_gap for problem in entry.problems)  # that is a problem, and shown
        ]
        if gaps:
            yield _summarise("not inspected", gaps, "check", True)


def _colour(fault: Fault) -> str:
    return "red" if fault.level is Level.ERROR else "yellow"


def _summarise(word: str, reasons: list[str], noun: str, counted: bool) -> str:
    (reason, _), *others = Counter(reasons).most_common()
    more = f" (and {count(len(others), 'other reason')})" if others else ""
    return f"{word}{f', {count(len(reasons), noun)}' * counted}: {one_line(reason)}{more}"


def _say_once(reason: str, package: PackageResult) -> str:
    """Without what a problem of the package says already: "unreadable package"."""
    head, _, rest = reason.partition(": ")
    said = (problem.sentence for entry in package.entries for problem in entry.problems)
    return head if rest and any(each.endswith(rest) for each in said) else reason


def _reason(entry: Entry) -> str:
    return summarise_gap(entry.not_inspected) or entry.reason


def _accepted(package: PackageResult, name: str) -> Iterator[str]:
    for entry in package.entries:
        for accepted in entry.accepted:
            yield accepted_line(entry.check, name, accepted)


def _fit_names(names: list[str], layout: PageLayout) -> dict[str, str]:
    """The names of packages in columns of one width, unless two would then look the same."""
    longest = max(map(len, names), default=0)
    room = max(layout.columns * 45 // 100, layout.columns - _VERDICT - 2)
    width = min(longest, room)
    short = {name: elide(name, width, ascii_only=layout.ascii) for name in names}
    if len(set(short.values())) < len(names):
        width, short = longest, {name: name for name in names}
    return {name: text.ljust(width) for name, text in short.items()}
