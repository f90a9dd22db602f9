"""Verdicts: the result of one run for one package, as the repository stores it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from binary_checks.documents.json_values import (
    DocumentError,
    decode_fields,
    dump,
    encode_fields,
    read_json,
)
from binary_checks.errors import EMPTY, MISUSED, RecordError
from binary_checks.fleet.stored_nights import require_digest
from binary_checks.model import (
    GOOD_OUTCOMES,
    VERDICTS,
    Entry,
    Outcome,
    PackageResult,
    RunResult,
    Words,
    sum_up,
)
from binary_checks.safe_text import cut, one_line

VERDICT_SCHEMA = "binary-checks/verdict/2"
_VOID = {MISUSED, EMPTY}  # exit codes of runs that were called wrongly, or had nothing to do
_MOST_LINES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyVerdict:
    """The result of one family's checks in one place."""

    family: str
    place: str = ""  # "" if the run had one place, or if the place does not matter
    outcome: Outcome
    gap: str = ""  # the first thing that could not be inspected, or ""
    gapped: tuple[str, ...] = ()  # the checks that could not inspect something


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageVerdict:
    """The result of a run for one file, with everything that a policy may ask about."""

    sha256: str
    file_name: str
    artifact_json_sha256: str  # of the store's artifact.json, which says which build the file is
    outcome: Outcome
    ended: str  # RFC 3339, UTC, by the clock of the host that ran it
    exit_code: int  # of the whole run, which may have judged other packages, too
    profile: str  # its name
    profile_sha256: str
    known_problems_sha256: str
    families: tuple[FamilyVerdict, ...]
    # as named on the command line; empty: static checks only, or unknown
    places: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()  # images, each with its digest
    ran_on: str = ""  # "" if nothing of the package ran
    passed: tuple[str, ...] = ()  # family/check, with the place if there are several
    warned: tuple[str, ...] = ()  # with warnings only, or with known problems only
    failed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()  # not inspected, or broken
    problems: tuple[str, ...] = ()  # the first twenty, as reports print them
    faults: tuple[str, ...] = ()  # complaints that prevent a pass although no check failed
    unjudged: str = ""  # why none of its native code could be judged
    stopped: str = ""  # why some checks did not finish
    selected: str = ""  # the option that selected only some checks
    versions: Mapping[str, str] = field(default_factory=dict)
    night: str = ""  # if made by an attempt in a night: 2026-11-20
    cell: str = ""
    stage: str = ""

    def require_sound(self) -> None:
        """Raise DocumentError for values that no run has."""
        for name in ("sha256", "artifact_json_sha256", "profile_sha256", "known_problems_sha256"):
            require_digest(name, getattr(self, name))
        read_time(self.ended)
        lacking = self.outcome is Outcome.FAILED and self.faults  # too few object files
        if (self.outcome is Outcome.FAILED) != bool(self.failed or lacking):
            raise DocumentError(f"outcome: {self.outcome.value}, but its checks contradict that")

    @property
    def is_decisive(self) -> bool:
        """Whether the verdict is about the package, and not about the host or the network.

        A verdict on a package whose native code cannot be judged is decisive, too. It replaces an
        older pass of the same bytes, made by a version that did not notice the gap.
        """
        if self.outcome is Outcome.FAILED:
            return True
        whole = not self.stopped and not self.selected and self.exit_code not in _VOID
        unjudged = self.outcome is Outcome.NOT_JUDGED and bool(self.unjudged)
        return whole and (self.outcome in GOOD_OUTCOMES or unjudged)

    @property
    def word(self) -> str:
        """The verdict as policies and pages show it: passed, warned, known, failed, …."""
        return self.words.word

    @property
    def words(self) -> Words:
        """How the verdict is shown, and the label of the file in a channel without a gate."""
        complained = self.faults and self.outcome in GOOD_OUTCOMES
        return VERDICTS[Outcome.FAILED if complained else self.outcome]

    def format_reason(self) -> str:
        """Return why the verdict is not a pass, in one line; "" if no reason is recorded."""
        partly = f"only some checks were selected ({self.selected})" if self.selected else ""
        reasons = (*self.problems, self.unjudged, *self.faults, self.stopped, partly)
        return next(filter(None, reasons), "")


def _list_faults(run: RunResult, package: PackageResult) -> Iterator[str]:
    """Yield the run's complaints, except for complaints about its other packages."""
    others = {each.file_name for each in run.packages} - {package.file_name}
    for line in run.complaints:
        if line.partition(": ")[0] not in others:
            yield cut(one_line(line))


def make_verdict(
    run: RunResult, package: PackageResult, artifact_json_sha256: str
) -> PackageVerdict:
    """Return the verdict of a run on one of its packages.

    ``artifact_json_sha256`` is the SHA-256 of the file's artifact.json.
    """
    return PackageVerdict(
        sha256=package.sha256,
        file_name=package.file_name,
        artifact_json_sha256=artifact_json_sha256,
        outcome=package.verdict,
        ended=run.ended,
        exit_code=run.exit_code,
        profile=run.profile.source,
        profile_sha256=run.profile.sha256,
        known_problems_sha256=run.profile.known_problems_sha256,
        families=tuple(_judge_families(package.entries)),
        places=run.places,
        roots=package.roots,
        ran_on=package.ran_on,
        passed=_name_checks(package.entries, Outcome.PASSED),
        warned=_name_checks(package.entries, Outcome.WARNED, Outcome.ACCEPTED),
        failed=_name_checks(package.entries, Outcome.FAILED),
        undecided=_name_checks(
            package.entries, Outcome.NOT_INSPECTED, Outcome.BROKEN, Outcome.ERROR
        ),
        problems=tuple(_list_problems(package.entries))[:_MOST_LINES],
        faults=tuple(_list_faults(run, package))[:_MOST_LINES],
        unjudged=cut(one_line(package.unjudged)),
        stopped=one_line(package.stopped),
        selected=cut(one_line(run.selected)),
        versions=dict(run.versions),
    )


def _judge_families(entries: Sequence[Entry]) -> Iterator[FamilyVerdict]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.family, entry.place), []).append(entry)
    for (family, place), found in sorted(groups.items()):
        gaps = [entry for entry in found if entry.has_gap]
        outcomes = {entry.outcome for entry in found}
        # for the whole package, such outcomes mean that nothing was judged
        inapplicable = outcomes == {Outcome.NOT_APPLICABLE}
        yield FamilyVerdict(
            family=family,
            place=place,
            outcome=Outcome.NOT_APPLICABLE if inapplicable else sum_up(outcomes),
            gap=next(map(_format_gap, gaps), ""),
            gapped=tuple(sorted(entry.check for entry in gaps)),
        )


def _format_gap(entry: Entry) -> str:
    texts = [entry.reason, *(each.sentence for each in entry.not_inspected)]
    return cut(one_line(f"{entry.check}: {next(filter(None, texts), 'not inspected')}"))


def _name_checks(entries: Iterable[Entry], *outcomes: Outcome) -> tuple[str, ...]:
    return tuple(
        sorted(f"{entry.family}/{entry.item}" for entry in entries if entry.outcome in outcomes)
    )


def _list_problems(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the lines of problems; add failures of network and host only if there are none."""
    failed = any(entry.problems for entry in entries)
    broken = (Outcome.BROKEN,) if failed else (Outcome.BROKEN, Outcome.ERROR)
    for entry in entries:
        where = f" [{entry.place}]" if entry.place else ""
        for problem in entry.problems:
            parts = (entry.shown_check, problem.path, problem.sentence)
            yield cut(one_line(": ".join(filter(None, parts)) + where))
        if entry.outcome in broken:
            yield cut(one_line(f"{entry.check}: {entry.reason}{where}"))


# Verdicts as in-toto statements (https://in-toto.io/Statement/v1): canonical, read back strictly.
#
# A verdict has the predicate test-result/v0.1. Fields that the predicate does not have are
# annotations of one of its resource descriptors, so that every reader of the format can read them.

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
LARGEST_STATEMENT = 4 << 20  # bytes
_RESULTS = {"passed": "PASSED", "warned": "WARNED", "known": "WARNED"}


def write_statement(verdict: PackageVerdict) -> bytes:
    """Return a verdict's statement; equal verdicts give the same bytes."""
    configuration = [
        {"name": "profile", "digest": {"sha256": verdict.profile_sha256}},
        {"name": "known problems", "digest": {"sha256": verdict.known_problems_sha256}},
        {"name": VERDICT_SCHEMA, "annotations": encode_fields(verdict)},
    ]
    predicate = {
        "result": _RESULTS.get(verdict.word, "FAILED"),
        "configuration": configuration,
        "passedTests": [*verdict.passed],
        "warnedTests": [*verdict.warned],
        "failedTests": [*verdict.failed],
    }
    return seal(verdict.sha256, verdict.file_name, TEST_RESULT, predicate)


def seal(sha256: str, file_name: str, kind: str, predicate: Mapping[str, Any]) -> bytes:
    """Return a statement about one file, with the given type of predicate."""
    subject = {"name": file_name, "digest": {"sha256": sha256}}
    row = {"_type": STATEMENT, "subject": [subject], "predicateType": kind, "predicate": predicate}
    return dump(row).encode("ascii")


def read_statement(content: bytes, named: str) -> PackageVerdict:
    """Return the verdict in a statement; ``named`` is its name in messages.

    Raises RecordError with a message of one line if the statement is truncated, of another type or
    subject, or differs from the text that `write_statement` writes.
    """
    return read_back(PackageVerdict, _find_record, write_statement, content, named)


class _Checked(Protocol):
    """A record that may hold values which contradict each other."""

    def require_sound(self) -> None:
        """Raise DocumentError if it does."""


_Record = TypeVar("_Record", bound=_Checked)


def read_back(
    kind: type[_Record],
    find: Callable[[bytes], Any],
    write: Callable[[_Record], bytes],
    content: bytes,
    named: str,
) -> _Record:
    """Return the record of that class in a document, where ``find`` finds its fields.

    Its ``require_sound`` may raise DocumentError. Raises RecordError with a message of one line
    unless the document is as ``write`` writes it.
    """
    try:
        record = kind(**decode_fields(kind, find(content)))
        record.require_sound()
        if write(record) != content:
            raise DocumentError("its parts contradict each other")
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None
    return record


def open_statement(content: bytes, kind: str) -> Mapping[str, Any]:
    """Return the predicate of a statement. Raises DocumentError unless it has the given type."""
    row = read_object(content)
    if row.get("_type") != STATEMENT:
        raise DocumentError("not an in-toto statement")
    if row.get("predicateType") != kind:
        raise DocumentError(f"its predicate is {row.get('predicateType')!r:.100}, not {kind}")
    predicate = row.get("predicate")
    if not isinstance(predicate, dict):
        raise DocumentError("it has no predicate")
    return predicate


def read_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object in ASCII. Raises DocumentError."""
    if len(content) > LARGEST_STATEMENT:
        raise DocumentError(f"larger than {LARGEST_STATEMENT} bytes")
    try:
        row = read_json(content.decode("ascii"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"not ASCII at byte {error.start:#x}") from None
    if not isinstance(row, dict):
        raise DocumentError("not a JSON object")
    return row


def _find_record(content: bytes) -> Any:
    found = open_statement(content, TEST_RESULT).get("configuration")
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("name") == VERDICT_SCHEMA:
            return each.get("annotations")
    raise DocumentError(f"its configuration has no {VERDICT_SCHEMA}")


def read_time(text: str) -> datetime:
    """Return a time in UTC, as documents write it. Raises DocumentError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.utcoffset() != timedelta(0) or len(text) > 40:
        raise DocumentError(f"{text!r:.40} is not a time in UTC, such as 2026-11-20T04:00:00+00:00")
    return found
