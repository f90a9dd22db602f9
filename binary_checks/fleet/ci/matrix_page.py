"""docs/matrix.md: a matrix for people, as a diagram and as a table for each project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from binary_checks.fleet.cells import GPU, Matrix, name_values, tabulate_cells
from binary_checks.fleet.ci.generated_files import heading
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.fleet.night import Cell
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

_MOST_GROUPS = 30
"""Most boxes of cells in the diagram, so that it stays readable."""
_MOST_SOURCES = 6
"""Most boxes of sources; Mermaid draws at most 500 lines."""
_MOST_VALUES = 6
"""Most values of an axis in one box."""
_GROUPINGS: Sequence[tuple[str, ...]] = (
    ("project", "system", "variant"),
    ("project", "system"),
    ("project",),
    ("system",),
    (),
)
"""Ways to group cells, from fine to coarse; the first one with few enough groups is drawn."""
_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""Characters that Markdown, or HTML in it, may take for markup."""


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the only file."""
    return {"docs/matrix.md": describe_matrix(pipeline.matrix, heading(pipeline))}


def describe_matrix(matrix: Matrix, heading: str) -> str:
    """Return the page; ``heading`` says how it was generated."""
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
    message = f"{count(len(matrix.cells), 'cell')} of {count(projects, 'project')}"
    return f"{message}, {gpu:,} with a GPU stage ({GPU})" if gpu else message


def _by_project(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Return project -> cells, in the order of the file."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.project, []).append(cell)
    return found


def _describe_project(project: str, cells: Sequence[Cell], used: Sequence[str]) -> Iterator[str]:
    """Yield a project's heading, the values common to its cells, and tables of the other axes."""
    table = tabulate_cells(cells, used)
    same = ", ".join(f"{axis} {value}" for axis, value in table.same.items())
    yield from ("", f"## {escape(project)}", "")
    gpu = ", with a GPU stage" if len(cells) == 1 and cells[0].gpu else ""
    yield escape(f"{count(len(cells), 'cell')}{': ' * bool(same)}{same}{gpu}.")
    if table.axes:
        yield from ("", _row(table.axes), "|---" * len(table.axes) + "|")
        yield from (_row((*key, " ".join(values))) for key, values in table.rows.items())


def _list_left_out(matrix: Matrix) -> Iterator[str]:
    """Yield the cells that are left out, with the reasons."""
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
    """Return the text as one line in which Markdown finds no markup."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


def draw_cells(matrix: Matrix) -> Iterator[str]:
    """Yield a Mermaid flowchart: projects, groups of cells, the GPU stage, and sources.

    The names of nodes are a letter and a number. Boxes contain values of axes: only letters, digits
    and ._+-.
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
    """Return name -> node."""
    return {name: f"{letter}{number}" for number, name in enumerate(dict.fromkeys(names))}


def _group(cells: Sequence[Cell]) -> tuple[list[list[Cell]], Callable[[Cell], str]]:
    """Return the groups of cells that share a box, and a function that names a cell's project.

    If there are too many groups, all cells have one common project, such as "12 projects".
    """
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
    """Return a function that names a cell's source; if there are many, all get one name."""
    names = {cell.source for cell in cells}
    if len(names) <= _MOST_SOURCES:
        return lambda cell: f"source {cell.source}" if cell.source else "index of pip"
    everything = count(len(names), "source")
    return lambda _: everything


def _value(cell: Cell, axis: str) -> str:
    value: str = getattr(cell, axis)
    return f"{value}-{cell.architecture}" if axis == "system" else value


def _describe_group(cells: Sequence[Cell], used: Sequence[str]) -> Iterator[str]:
    """Yield the group's size, then the values of its cells on each axis."""
    yield count(len(cells), "cell")
    rows = [name_values(cell, used) for cell in cells]
    for axis in (axis for axis in rows[0] if axis != "source"):
        values = [value for value in dict.fromkeys(row[axis] for row in rows) if value != "-"]
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        if values:
            yield f"{axis} {', '.join(values[:_MOST_VALUES])}{more}"


def _label(*lines: str) -> str:
    """Return a box's text in quotes, so that Mermaid finds no keyword in it."""
    return '"' + "<br>".join(lines) + '"'
