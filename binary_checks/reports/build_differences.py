"""Differences between two builds, as text and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from binary_checks.model import BuildComparison, NotCompared, Severity
from binary_checks.reports.markdown import format_code
from binary_checks.safe_text import MOST_OF_A_RUN, cut, one_line

_NAMES = {
    Severity.BREAK: ("break", "breaks"),
    Severity.CHANGE: ("change", "changes"),
    Severity.INFO: ("note", "notes"),
}
_HEADINGS = {
    Severity.BREAK: "What may break",
    Severity.CHANGE: "What changed",
    Severity.INFO: "Worth knowing",
}


def write_text(comparison: BuildComparison) -> Iterator[str]:
    """Yield a line for each difference, the most serious first, without line ends."""
    texts = [
        f"{comparison.old} -> {comparison.new}: {_sum_up(comparison)}",
        *(
            f"{line.severity.value}: {line.difference}: {line.text}"
            + f" (accepted: {line.accepted})" * bool(line.accepted)
            for line in comparison.lines
        ),
        *(f"not compared: {_describe_gap(gap)}" for gap in comparison.not_compared),
        *comparison.complaints,
    ]
    for text in texts[:MOST_OF_A_RUN]:
        yield cut(one_line(text))
    if len(texts) > MOST_OF_A_RUN:
        yield f"and {len(texts) - MOST_OF_A_RUN:,} more lines; --json has all"


def _describe_gap(gap: NotCompared) -> str:
    accepted = f" (accepted: {gap.accepted})" if gap.accepted else ""
    return ": ".join(filter(None, (gap.difference, gap.subject, gap.reason))) + accepted


def _sum_up(comparison: BuildComparison) -> str:
    counted = Counter(line.severity for line in comparison.lines)
    found = [
        f"{counted[each]:,} {_NAMES[each][counted[each] > 1]}" for each in Severity if counted[each]
    ]
    if comparison.not_compared:
        found.append(f"{len(comparison.not_compared):,} not compared")
    return ", ".join(found) or "no difference"


def write_markdown(comparison: BuildComparison) -> Iterator[str]:
    """Yield the differences as Markdown, for a comment on a pull request."""
    yield f"### {_code(comparison.old)} → {_code(comparison.new)}"
    yield ""
    yield f"{_sum_up(comparison).capitalize()}."
    for severity in Severity:
        lines = [line for line in comparison.lines if line.severity is severity]
        if lines:
            yield ""
            yield f"**{_HEADINGS[severity]}**"
            yield ""
            for line in lines:
                accepted = f" — accepted: {_code(line.accepted)}" if line.accepted else ""
                yield f"- `{line.difference}` {_code(line.text)}{accepted}"
    if comparison.not_compared:
        yield ""
        yield "**Not compared**"
        yield ""
        yield from (f"- {_code(_describe_gap(gap))}" for gap in comparison.not_compared)
    for complaint in comparison.complaints:
        yield ""
        yield _code(complaint)


def _code(text: str) -> str:
    return format_code(cut(one_line(text)))
