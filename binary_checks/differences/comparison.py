"""Compares two builds: calls every difference, folds changes into lines, and accepts known ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from importlib import import_module
from itertools import accumulate
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks.declaring import Difference, find_differences
from binary_checks.errors import BinaryChecksError, NotApplicable, ProfileError, Unavailable
from binary_checks.knowledge.linked_libraries import PairedObjects, pair_objects, plain_path
from binary_checks.model import (
    ANY_SYSTEM,
    Build,
    BuildComparison,
    Change,
    DifferenceLine,
    NotCompared,
    ObjectFile,
    Package,
    Problem,
    Severity,
)
from binary_checks.profile import KnownProblem, accept, find_expired, find_stale
from binary_checks.wording.sentences import name_first

GAP = "not-compared"
"""The id by which entries accept a difference that could not be looked for."""
_WIDTH = 180  # characters of a line that name subjects
_Found = Change | NotCompared


def compare(
    old: Build,
    new: Build,
    differences: Iterable[Difference[Any]] | None = None,
    known: Sequence[KnownProblem] = (),
    today: date = date.min,
) -> BuildComparison:
    """Return all differences, and everything that could not be compared.

    ``known`` are entries that accept differences: their ``check`` is the id of a difference. Raises
    ProfileError, one line, for builds of different projects, systems or architectures.
    """
    _require_comparable(old.package, new.package)
    pairs = pair_objects(old.package, new.package)
    changes: list[tuple[str, Change]] = []
    gaps = [*_list_gaps(old), *_list_gaps(new)]
    for each in load_differences() if differences is None else differences:
        for found in _apply(each, old, new, pairs):
            if isinstance(found, NotCompared):
                gaps.append(found)
            else:
                changes.append((each.id, found))
    folded = list(_fold_gaps(gaps))
    entries = [each for each in known if each.selects(new.package.file_name)]
    problems = [
        *((name, Problem(path=each.subject, sentence=each.sentence)) for name, each in changes),
        *((GAP, Problem(path=gap.subject, sentence=gap.reason)) for gap in folded),
    ]
    reasons = []
    for name, problem in problems:
        ours = [each for each in entries if each.check == name]
        reasons.append(next((each.reason for each in accept([problem], ours, today)), ""))
    of_changes, of_gaps = reasons[: len(changes)], reasons[len(changes) :]
    left = [each for each, reason in zip(problems, reasons, strict=True) if not reason]
    return BuildComparison(
        old=old.label,
        new=new.label,
        old_sha256=old.sha256,
        new_sha256=new.sha256,
        lines=tuple(
            _fold((*each, reason) for each, reason in zip(changes, of_changes, strict=True))
        ),
        not_compared=tuple(
            replace(gap, accepted=reason) for gap, reason in zip(folded, of_gaps, strict=True)
        ),
        complaints=tuple(_list_complaints(entries, problems, left, today)),
    )


def _list_complaints(
    entries: Sequence[KnownProblem],
    problems: Sequence[tuple[str, Problem]],
    left: Sequence[tuple[str, Problem]],
    today: date,
) -> Iterator[str]:
    """Yield a sentence for each entry that matched nothing or whose date has passed."""
    for name in sorted({each.check for each in entries}):
        ours = [each for each in entries if each.check == name]
        met, remaining = ([p for each, p in found if each == name] for found in (problems, left))
        for problem in (*find_stale(ours, met), *find_expired(ours, remaining, today)):
            yield problem.sentence


def load_differences() -> tuple[Difference[Any], ...]:
    """Return every difference of this package, by id."""
    from binary_checks import differences  # it imports this module

    return find_differences(map(import_module, differences.MODULES))


def _require_comparable(old: Package, new: Package) -> None:
    named = not (old.claims.partial or new.claims.partial)  # a folder may have any name
    one, other = canonicalize_name(old.name), canonicalize_name(new.name)
    if named and one != other:
        raise ProfileError(
            f"{old.file_name} is of {one}, {new.file_name} of {other}: these are not two "
            "builds of one project"
        )
    for before, after in zip(_claimed(old), _claimed(new), strict=True):
        if before and after and not before & after:
            spelled = f"{', '.join(sorted(before))}, {new.file_name} for {', '.join(sorted(after))}"
            raise ProfileError(f"{old.file_name} is for {spelled}: they cannot be compared")


def _claimed(package: Package) -> tuple[set[str], set[str]]:
    """Return the systems and the architectures that a package claims; empty for all or none."""
    claims = package.claims.systems
    if any(claim.system in (ANY_SYSTEM, "") for claim in claims):
        return set(), set()
    architectures = {each for claim in claims for each in claim.architectures}
    return {claim.system for claim in claims}, architectures


def _list_gaps(build: Build) -> Iterator[NotCompared]:
    """Yield what is unknown about one of the builds, whichever difference needs it."""
    for gap in build.gaps:
        yield NotCompared(subject=build.label, reason=gap)
    package = build.package
    for word, faults in (("not read", package.unread), ("malformed", package.malformed)):
        for fault in faults:
            path = plain_path(package.layout, fault.path)
            yield NotCompared(subject=path, reason=f"{word} in {build.label}: {fault.reason}")


def _apply(each: Difference[Any], old: Build, new: Build, pairs: PairedObjects) -> Iterator[_Found]:
    kinds = each.subjects
    facts = _find_fact(kinds, old, pairs), _find_fact(kinds, new, pairs)
    sides: list[tuple[object, object, str]] = [] if None in facts else [(*facts, "")]
    if all(issubclass(kind, ObjectFile) for kind in kinds):
        found = (pair for pair in pairs.pairs if isinstance(pair.old, kinds))
        sides = [
            (pair.old, pair.new, pair.subject) for pair in found if isinstance(pair.new, kinds)
        ]
    for before, after, subject in sides:
        try:
            for change in each(before, after):
                yield replace(change, subject=change.subject or subject)
        except NotApplicable:
            continue
        except Unavailable as error:
            yield NotCompared(difference=each.id, subject=subject, reason=str(error))
        except BinaryChecksError:
            raise
        # documents come from anywhere: one that breaks a difference must not stop the others
        except Exception as error:
            reason = f"this difference broke: {type(error).__name__}: {error}"
            yield NotCompared(difference=each.id, subject=subject, reason=reason)


def _find_fact(kinds: tuple[type, ...], build: Build, pairs: PairedObjects) -> object:
    """Return the build's fact of one of these classes; None if it does not exist or is unknown."""
    facts = [build.linkage, build.configuration, build.linked, build.results]
    known = (*facts, build, pairs, build.package) if build.is_known else facts
    return next((fact for fact in known if isinstance(fact, kinds)), None)


def _fold(changes: Iterable[tuple[str, Change, str]]) -> list[DifferenceLine]:
    """Return one line for each group of changes with the same text, the most severe lines first."""
    groups: dict[tuple[Severity, str, str, str, str], list[Change]] = {}
    for name, change, reason in changes:
        sentence = change.together or change.sentence
        key = (change.severity, name, sentence, change.noun, reason)
        groups.setdefault(key, []).append(change)
    order = list(Severity)
    lines = [
        _write_line(name, sentence, reason, found)
        for (_, name, sentence, _, reason), found in groups.items()
    ]
    return sorted(lines, key=lambda line: (order.index(line.severity), line.difference, line.text))


def _write_line(name: str, sentence: str, reason: str, found: list[Change]) -> DifferenceLine:
    found = sorted(found, key=lambda change: (change.subject, change.detail))
    first = found[0]
    details = tuple(change.detail for change in found)
    if len(found) == 1:
        text = f"{first.subject}: {first.sentence}" if first.subject else first.sentence
    else:
        alike = f": {first.detail}" if first.detail and len({*details}) == 1 else ""
        shown = [c.subject if alike else f"{c.subject} {c.detail}".strip() for c in found]
        text = f"{len(found):,} {first.noun}: {sentence}{alike} ({_name_some(shown)})"
    return DifferenceLine(
        difference=name,
        severity=first.severity,
        text=text,
        subjects=tuple(change.subject for change in found if change.subject),
        details=details if any(details) else (),
        accepted=reason,
    )


def _name_some(shown: list[str]) -> str:
    """Return as many subjects as fit into a line, and how many more there are."""
    lengths = accumulate(len(each) + 2 for each in shown)
    return name_first(shown, max(sum(length - 2 <= _WIDTH for length in lengths), 1))


def _fold_gaps(gaps: Iterable[NotCompared]) -> Iterator[NotCompared]:
    """Yield one gap for all objects with the same reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        groups.setdefault((gap.difference, gap.reason), []).append(gap.subject)
    for (difference, reason), subjects in groups.items():
        several = f"{len(subjects):,} objects ({_name_some(subjects)})"
        subject = subjects[0] if len(subjects) == 1 else several
        yield NotCompared(difference=difference, subject=subject, reason=reason)
