"""docs/matrix.md: a matrix for people, as a diagram and as a table for each project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from binary_checks.fleet.cells.listing import GPU, name_values, tabulate_cells
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.ci.generated_files import heading
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.fleet.night import Cell
from binary_checks.lines import one_line
from binary_checks.reports.verdict_texts import count

_MOST_GROUPS = 30
"""Boxes of cells in the diagram: more of them are nothing that anybody reads."""
_MOST_SOURCES = 6
"""Boxes of sources; Mermaid draws 500 lines at most."""
_MOST_VALUES = 6
"""Values of an axis that one box names."""
_GROUPINGS: Sequence[tuple[str, ...]] = (
    ("project", "system", "variant"),
    ("project", "system"),
    ("project",),
    ("system",),
    (),
)
"""From the finest to the coarsest; the first one with few enough groups is drawn."""
_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""Characters that Markdown, or HTML in it, may take for more than text."""


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """The one file."""
    return {"docs/matrix.md": describe_matrix(pipeline.matrix, heading(pipeline))}


def describe_matrix(matrix: Matrix, heading: str) -> str:
    """The page; ``heading`` is a line that says by what it is written."""
    parts = (
        [f"<!-- {heading} -->", "# The matrix", ""],
        [f"{_sum_up(matrix)}.", ""],
        ["```mermaid", *draw_cells(matrix), "```"],
        chain.from_iterable(
            _describe_project(project, cells, matrix.axes)
            for project, cells in _by_project(matrix.cells).items()
        ),
        _list_left_out(matrix),
    )
    return "\n".join(chain(*parts)) + "\n"


def _sum_up(matrix: Matrix) -> str:
    projects = len({cell.project for cell in matrix.cells})
    gpu = sum(cell.gpu for cell in matrix.cells)
    said = f"{count(len(matrix.cells), 'cell')} of {count(projects, 'project')}"
    return f"{said}, {gpu:,} with a GPU stage ({GPU})" if gpu else said


def _by_project(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """In the order of the file."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.project, []).append(cell)
    return found


def _describe_project(project: str, cells: Sequence[Cell], used: Sequence[str]) -> Iterator[str]:
    """Its heading, what all its cells have, and a row for those that differ in one axis alone."""
    table = tabulate_cells(cells, used)
    same = ", ".join(f"{axis} {value}" for axis, value in table.same.items())
    yield from ("", f"## {escape(project)}", "")
    gpu = ", with a GPU stage" if len(cells) == 1 and cells[0].gpu else ""
    yield escape(f"{count(len(cells), 'cell')}{': ' * bool(same)}{same}{gpu}.")
    if table.axes:
        yield from ("", _row(table.axes), "|---" * len(table.axes) + "|")
        yield from (_row((*key, " ".join(values))) for key, values in table.rows.items())


def _list_left_out(matrix: Matrix) -> Iterator[str]:
    """What is no cell though its block says so, and why."""
    found = [each for each in matrix.left_out if not each.expired]
    if not found:
        return
    yield from ("", "## Left out", "", _row(("cells", "number", "until", "reason")))
    yield "|---|---|---|---|"
    for each in found:
        yield _row((each.when, f"{each.cells:,}", each.expires, each.reason))


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, values))} |"


def escape(text: str) -> str:
    """The text for Markdown, where it is that text and nothing else; one line."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


def draw_cells(matrix: Matrix) -> Iterator[str]:
    """A Mermaid flowchart: projects, groups of their cells, the GPU stage, and sources.

    Names of nodes are ours. What boxes say are values of axes, of letters, digits and ._+- alone.
    """
    yield "flowchart LR"
    groups, project_of = _group(matrix.cells)
    projects = _number("p", map(project_of, matrix.cells))
    for name, node in projects.items():
        size = sum(project_of(cell) == name for cell in matrix.cells)
        yield f"  {node}([{_label(name, count(size, 'cell'))}])"
    source_of = _name_sources(matrix.cells)
    sources = _number("c", map(source_of, matrix.cells))
    for name, node in sources.items():
        yield f"  {node}[({_label(name)})]"
    for number, cells in enumerate(groups):
        yield f"  g{number}[{_label(*_describe_group(cells, matrix.axes))}]"
        yield f"  {projects[project_of(cells[0])]} --> g{number}"
        if gpu := sum(cell.gpu for cell in cells):
            yield f"  u{number}{{{{{_label('GPU', count(gpu, 'cell'))}}}}}"
            yield f"  g{number} --> u{number}"
        ends = dict.fromkeys(("u" if cell.gpu else "g", source_of(cell)) for cell in cells)
        yield from (f"  {kind}{number} --> {sources[name]}" for kind, name in ends)


def _number(letter: str, names: Iterable[str]) -> dict[str, str]:
    """What the boxes of these names are called."""
    return {name: f"{letter}{number}" for number, name in enumerate(dict.fromkeys(names))}


def _group(cells: Sequence[Cell]) -> tuple[list[list[Cell]], Callable[[Cell], str]]:
    """The cells that share a box, and what that hangs on: a project, or one box for all."""
    axes: tuple[str, ...] = ()
    found: dict[tuple[str, ...], list[Cell]] = {}
    for axes in _GROUPINGS:
        found = {}
        for cell in cells:
            found.setdefault(tuple(_value(cell, axis) for axis in axes), []).append(cell)
        if len(found) <= _MOST_GROUPS:
            break
    if "project" in axes:
        return [*found.values()], lambda cell: cell.project
    everything = count(len({cell.project for cell in cells}), "project")
    return [*found.values()], lambda _: everything


def _name_sources(cells: Sequence[Cell]) -> Callable[[Cell], str]:
    """What the box of a cell's source says; one for all where there are many."""
    names = {cell.source for cell in cells}
    if len(names) <= _MOST_SOURCES:
        return lambda cell: f"source {cell.source}" if cell.source else "index of pip"
    everything = count(len(names), "source")
    return lambda _: everything


def _value(cell: Cell, axis: str) -> str:
    value: str = getattr(cell, axis)
    return f"{value}-{cell.architecture}" if axis == "system" else value


def _describe_group(cells: Sequence[Cell], used: Sequence[str]) -> Iterator[str]:
    """Its size, then the values that its cells have on each axis."""
    yield count(len(cells), "cell")
    rows = [name_values(cell, used) for cell in cells]
    for axis in (axis for axis in rows[0] if axis != "source"):
        values = [value for value in dict.fromkeys(row[axis] for row in rows) if value != "-"]
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        if values:
            yield f"{axis} {', '.join(values[:_MOST_VALUES])}{more}"


def _label(*lines: str) -> str:
    """What a box says; in quotes no word of it is one of Mermaid's."""
    return '"' + "<br>".join(lines) + '"'
