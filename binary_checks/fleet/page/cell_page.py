"""The page of one cell: what is wrong, what changed, how to run it again, and how it was before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from binary_checks.fleet.causes.cause_rules import shipped_causes
from binary_checks.fleet.cell import AXES
from binary_checks.fleet.page.charts import Chart, draw_line, draw_stacks
from binary_checks.fleet.page.evidence import CellEvidence
from binary_checks.fleet.page.history import CellNight, History
from binary_checks.fleet.page.naming import TONES, spell, spell_seconds, spell_since
from binary_checks.fleet.states import GOOD, LETTERS, CellState
from binary_checks.reports.html.figures import spell_size
from binary_checks.reports.verdict_texts import count

_SAME = "the same"


@dataclass(frozen=True, kw_only=True, slots=True)
class NightRow:
    """One night of the cell."""

    night: str
    letter: str
    tone: str
    state: str
    version: str
    is_new: bool  # whether the night before stood for another file
    size: str
    seconds: str
    said: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CellPage:
    """Everything that the page of a cell shows."""

    cell: str
    project: str
    state: str
    letter: str
    tone: str
    since: str
    said: str
    cause: str
    facts: tuple[tuple[str, str], ...]
    axes: tuple[tuple[str, str], ...]
    evidence: CellEvidence
    compared: str  # with which build
    same_file: str
    nights: tuple[NightRow, ...]
    sizes: Chart | None
    times: Chart | None


def lay_out_cell(cell: str, history: History, shown: int, evidence: CellEvidence) -> CellPage:
    """What the page shows of a cell, with so many nights in its table."""
    rows = history.cells[cell]
    row = rows[history.last]
    nights = [rows[night] for night in history.nights[-shown:] if night in rows]
    since, known = history.find_since(row)
    good = history.find_last_good(cell)
    is_well = row.state in GOOD
    return CellPage(
        cell=spell(cell, 200),
        project=spell(row.project),
        state=row.state.value,
        letter=LETTERS[row.state],
        tone=TONES[row.state],
        since="" if is_well else spell_since(since, history.last, known=known),
        said=spell(row.reason, 500),
        cause="" if _is_check(history, row) else _spell_cause(row),
        facts=tuple(_facts(row)),
        axes=tuple(_axes(row)),
        evidence=evidence,
        compared=f"{spell(good.version, 60)}, which passed on {good.night}" if good else "",
        same_file=_spell_same(row, good) if not is_well else "",
        nights=tuple(_fold_repeats(reversed([*_nights(history, nights)]))),
        sizes=_draw_sizes(history, nights),
        times=draw_line([(row.night, row.seconds) for row in nights if row.seconds], spell_seconds),
    )


def _axes(row: CellNight) -> Iterator[tuple[str, str]]:
    for name, value in zip(AXES, row.axes, strict=False):
        if value and name != "project":
            yield name.replace("_", " "), spell(value)


def _is_check(history: History, row: CellNight) -> bool:
    """Whether the cause is a check that failed, of which the problems say all."""
    return row.cause in {each.check for each in history.failures.get((row.cell, row.night), ())}


def _spell_cause(row: CellNight) -> str:
    """What the cause is called, the line that told it, and what to do about it."""
    if not row.cause:
        return ""
    kind = f" ({row.cause_kind})" if row.cause_kind and row.cause_kind != row.cause else ""
    told = spell(f"{row.cause}{kind}{f': {row.evidence}' if row.evidence else ''}", 400)
    advice = shipped_causes().advice_on(row.cause)
    return f"{told}. What to do: {advice}" if advice else told


def _spell_same(row: CellNight, good: CellNight | None) -> str:
    if good is None:
        return "No earlier night is known in which this cell passed."
    if row.sha256 and good.sha256 == row.sha256:
        return (
            f"The very same file passed on {good.night}: what changed is around it, "
            "or in what it requires."
        )
    return ""


def _facts(row: CellNight) -> Iterator[tuple[str, str]]:
    yield "File", spell(row.file_name, 200)
    yield "Version", spell(row.version)
    yield "SHA-256", spell(row.sha256)
    yield "Size", spell_size(row.size) if row.size else ""
    yield "Uploaded", spell(row.uploaded)
    yield "From", spell(row.url, 200)
    yield "Place", spell(row.place)
    yield "Took", spell_seconds(row.seconds) if row.seconds else ""
    yield "Memory", spell_size(row.peak_memory) if row.peak_memory else ""
    yield "Attempts", str(row.attempts) if row.attempts > 1 else ""


def _nights(history: History, nights: list[CellNight]) -> Iterator[NightRow]:
    """The rows, the oldest first."""
    before = ""
    for row in nights:
        yield NightRow(
            night=row.night,
            letter=LETTERS[row.state],
            tone="" if row.state is CellState.PASSED else TONES[row.state],
            state=row.state.value,
            version=spell(row.version, 60),
            is_new=bool(before and row.sha256 and row.sha256 != before),
            size=spell_size(row.size) if row.size else "",
            seconds=spell_seconds(row.seconds) if row.seconds else "",
            said=_sum_up(history, row),
        )
        before = row.sha256 or before


def _fold_repeats(nights: Iterable[NightRow]) -> Iterator[NightRow]:
    """The same rows, the last night first; what is said night after night is said once."""
    said = ""
    for row in nights:
        repeats = len(row.said) > len(_SAME) and row.said == said
        said = row.said
        yield replace(row, said=_SAME) if repeats else row


def _sum_up(history: History, row: CellNight) -> str:
    """What was wrong in one night, in one line."""
    if row.state in GOOD:
        return count(row.accepted, "accepted problem") if row.accepted else ""
    found = history.failures.get((row.cell, row.night), ())
    if not found:
        return spell(row.reason or row.cause, 200)
    more = len({each.check for each in found}) - 1
    first = found[0]
    return spell(f"{first.check}: {first.said}", 200) + (
        f" (and {count(more, 'check')})" if more else ""
    )


def _draw_sizes(history: History, nights: list[CellNight]) -> Chart | None:
    """The installed size by part where it is known of every night's file; else the file's size."""
    sized = [row for row in nights if row.size]
    if sized and all(row.sha256 in history.parts for row in sized):
        return draw_stacks([(row.night, _name_parts(history, row)) for row in sized], spell_size)
    return draw_line([(row.night, float(row.size)) for row in sized], spell_size)


def _name_parts(history: History, row: CellNight) -> dict[str, float]:
    return {spell(part, 40): float(size) for part, size in history.parts[row.sha256].items()}
