"""docs/matrix.md: a matrix for people, as a diagram and as a table for each project."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from binary_checks.fleet.cells import Matrix
from binary_checks.fleet.ci.pipeline import Pipeline
from binary_checks.fleet.ci.templating import render
from binary_checks.fleet.night import Cell
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

_MOST_GROUPS = 30
"""Most boxes of cells in the diagram, so that it stays readable."""
_MOST_VALUES = 6
"""Most values of an axis in one box."""
_GROUPINGS: Sequence[tuple[str, ...]] = (
    ("project", "system", "architecture", "variant"),
    ("project", "system", "architecture"),
    ("project",),
)
"""Ways to group cells, from fine to coarse; the first one with few enough groups is drawn."""
_MARKDOWN = re.compile(r"[\\`*{}\[\]<>|~&$]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""Characters that Markdown, or HTML in it, may take for markup."""


def write(pipeline: Pipeline) -> Mapping[str, str]:
    """Return path -> text of the only file."""
    matrix = pipeline.matrix
    projects: dict[str, list[Cell]] = {}
    for cell in matrix.cells:
        projects.setdefault(cell.project, []).append(cell)
    tables = {name: _tabulate(cells, matrix.axes) for name, cells in projects.items()}
    text = render(
        "matrix.md",
        pipeline,
        matrix=matrix,
        projects=projects,
        tables=tables,
        left_out=[each for each in matrix.left_out if not each.expired],
        diagram=[*_draw(matrix)],
        count=count,
        row=_format_row,
        escape=_escape,
    )
    return {"docs/matrix.md": text}


def _tabulate(cells: Sequence[Cell], used: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a heading, then a row for cells that differ in their Python only; + is a GPU stage."""
    axes = [axis for axis in _list_values(cells[0], used) if axis != "python"]
    rows: dict[tuple[str, ...], list[str]] = {}
    for cell in cells:
        values = _list_values(cell, used)
        found = rows.setdefault(tuple(values[axis] for axis in axes), [])
        found.append(f"{cell.python or '-'}{'+' * cell.gpu}")
    return [(*axes, "python"), *((*key, " ".join(pythons)) for key, pythons in rows.items())]


def _list_values(cell: Cell, used: Sequence[str]) -> dict[str, str]:
    """Return axis -> value without the project; system and architecture are joined."""
    values = {axis: getattr(cell, axis) or "-" for axis in used if axis != "project"}
    if values.pop("architecture", "-") != "-":
        values["system"] += f"-{cell.architecture}"
    return values


def _format_row(values: Iterable[object]) -> str:
    return f"| {' | '.join(_escape(str(each)) for each in values)} |"


def _escape(text: str) -> str:
    """Return the text as one line in which Markdown finds no markup."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


# The diagram. The names of nodes are a letter and a number, and boxes contain values of axes: only
# letters, digits and ._+-.


def _draw(matrix: Matrix) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart: projects, groups of cells, and GPU stages."""
    groups = _group(matrix.cells)
    sizes = Counter(cells[0].project for cells in groups for _ in cells)
    nodes = {name: f"p{number}" for number, name in enumerate(sizes)}
    for name, node in nodes.items():
        yield f'{node}(["{name}<br>{count(sizes[name], "cell")}"])'
    for number, cells in enumerate(groups):
        yield f'g{number}["{"<br>".join(_describe_group(cells, matrix.axes))}"]'
        yield f"{nodes[cells[0].project]} --> g{number}"
        if gpu := sum(cell.gpu for cell in cells):
            yield f'u{number}{{{{"GPU<br>{count(gpu, "cell")}"}}}}'
            yield f"g{number} --> u{number}"


def _group(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the groups of cells that share a box, or none if there are too many projects."""
    for axes in _GROUPINGS:
        found: dict[tuple[str, ...], list[Cell]] = {}
        for cell in cells:
            found.setdefault(tuple(getattr(cell, axis) for axis in axes), []).append(cell)
        if len(found) <= _MOST_GROUPS:
            return [*found.values()]
    return []


def _describe_group(cells: Sequence[Cell], used: Sequence[str]) -> Iterator[str]:
    """Yield the group's size, then the values of its cells on each axis."""
    yield count(len(cells), "cell")
    rows = [_list_values(cell, used) for cell in cells]
    for axis in rows[0]:
        values = [value for value in dict.fromkeys(row[axis] for row in rows) if value != "-"]
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        if values:
            yield f"{axis} {', '.join(values[:_MOST_VALUES])}{more}"
