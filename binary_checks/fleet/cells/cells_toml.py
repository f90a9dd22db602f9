"""Writes cells as a cells.toml: in few products, with exceptions where that is shorter."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, permutations, product
from math import prod

from binary_checks.fleet.cell import AXES, Cell
from binary_checks.fleet.cells.cells_file import MOST_CELLS
from binary_checks.fleet.cells.foreign_matrix import ForeignMatrix
from binary_checks.fleet.cells.matrix import CellChannel
from binary_checks.lines import one_line

_COLUMNS = ("libtorch", "host", "python", "variant", "cxx_abi", "channel")
"""The axes that a block multiplies; a host is a system with its architecture."""
_ORDERS = 24  # in which products are looked for
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Block = tuple[tuple[str, ...], ...]
"""A product: by column its values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """The cells of one project and kind, as products without a part of them."""

    project: str
    kind: str
    blocks: tuple[Block, ...]
    gaps: tuple[str, ...] = ()  # conditions of what is left out of the products


def write_toml(matrix: ForeignMatrix, source: str) -> str:
    """A file whose cells are those of the matrix and no others. The same cells, the same text."""
    kinds: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in matrix.cells:
        kinds[cell.project, cell.kind].append(cell)
    groups = [_group(cells) for cells in kinds.values()]
    names_kind = any(group.kind != "wheel" for group in groups)
    lines = [
        f"# The matrix of {_comment(source)}, as `binary-checks cells --from … --toml` writes it.",
        *(f"# {_comment(note)}" for note in matrix.notes),
    ]
    for channel in matrix.channels.values():
        lines += ["", *_write_channel(channel)]
    for group in groups:
        for block in group.blocks:
            lines += ["", *_write_block(group, block, names_kind=names_kind)]
    gaps = [gap for group in groups for gap in group.gaps]
    for gap in gaps:
        reason = f"not in {source}"
        lines += ["", "[[leave_out]]", f"when = {_quote(gap)}", f"reason = {_quote(reason)}"]
    cells = [replace(cell, id=_name(cell, names_kind=names_kind)) for cell in matrix.cells]
    for condition in find_conditions(cells, [cell.gpu for cell in cells]):
        lines += ["", "[[gpu]]", f"when = {_quote(condition)}"]
    return "\n".join(lines) + "\n"


def _group(cells: Sequence[Cell]) -> _Group:
    """In products alone, or in one and what is left out of it: whichever is fewer tables."""
    rows = [_row(cell) for cell in cells]
    project, kind = cells[0].project, cells[0].kind
    blocks = find_blocks(rows)
    if len(blocks) > 2:
        hull = tuple(tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True))
        mixed = any("" in values and len(values) > 1 for values in hull)
        if not mixed and prod(map(len, hull)) <= min(MOST_CELLS, 4 * len(rows)):
            known = set(rows)
            every = [_cell(project, kind, row) for row in product(*hull)]
            gaps = find_conditions(every, [_row(cell) not in known for cell in every])
            if 1 + len(gaps) <= len(blocks):
                return _Group(project=project, kind=kind, blocks=(hull,), gaps=tuple(gaps))
    return _Group(project=project, kind=kind, blocks=tuple(blocks))


def _name(cell: Cell, *, names_kind: bool) -> str:
    """The id that the file will give it."""
    axes = (axis for axis in AXES if names_kind or axis != "kind")
    return "-".join(filter(None, (getattr(cell, axis) for axis in axes)))


def _row(cell: Cell) -> tuple[str, ...]:
    host = f"{cell.system}-{cell.architecture}" if cell.system else ""
    return tuple(host if name == "host" else str(getattr(cell, name)) for name in _COLUMNS)


def _cell(project: str, kind: str, row: tuple[str, ...]) -> Cell:
    values = dict(zip(_COLUMNS, row, strict=True))
    system, _, architecture = values.pop("host").partition("-")
    return Cell(
        id="",  # no condition needs it: the others tell these cells apart
        project=project,
        kind=kind,
        system=system,
        architecture=architecture,
        libtorch=values["libtorch"],
        python=values["python"],
        variant=values["variant"],
        cxx_abi=values["cxx_abi"],
        channel=values["channel"],
    )


def find_blocks(rows: Sequence[tuple[str, ...]]) -> list[Block]:
    """Products that together are the rows, none of them twice: few, by merging axis after axis."""
    columns = range(len(rows[0]))
    varying = [column for column in columns if len({row[column] for row in rows}) > 1]
    orders = [order for order, _ in zip(permutations(varying), range(_ORDERS), strict=False)]
    found = [_merge([tuple((value,) for value in row) for row in rows], each) for each in orders]
    return min(found, key=len)


def _merge(blocks: list[Block], order: Sequence[int]) -> list[Block]:
    """The blocks with those joined that differ in one column alone, until none do."""
    while True:
        before = len(blocks)
        for column in order:
            alike: dict[Block, list[str]] = {}
            for block in blocks:
                lacks = ("",) if block[column] == ("",) else ()  # which no list may have
                rest = (*block[:column], lacks, *block[column + 1 :])
                alike.setdefault(rest, []).extend(block[column])
            blocks = [
                (*rest[:column], tuple(values), *rest[column + 1 :])
                for rest, values in alike.items()
            ]
        if len(blocks) == before:
            return blocks


def find_conditions(cells: Sequence[Cell], wanted: Sequence[bool]) -> list[str]:
    """Conditions that the wanted cells meet, each at least one, and no other: few and short."""
    lacking = {number for number, each in enumerate(wanted) if each}
    words = [held for axis in AXES if len(held := _words(cells, axis)) > 1]
    found: list[str] = []
    for size in range(min(1, len(words)), len(words) + 1):
        pure = {
            condition: numbers
            for some in combinations(words, size)
            for condition, numbers in _meet(some, lacking, len(cells))
            if all(wanted[number] for number in numbers)
        }
        for condition in sorted(pure, key=lambda each: -len(pure[each])):
            if lacking & pure[condition]:
                found.append(condition)
                lacking -= pure[condition]
    return [*found, *(f"id={cells[number].id}" for number in sorted(lacking))]


def _words(cells: Sequence[Cell], axis: str) -> dict[str, set[int]]:
    """``variant=cu*`` and ``variant=cu126`` with the numbers of the cells that meet them."""
    values: dict[str, set[int]] = defaultdict(set)
    for number, cell in enumerate(cells):
        values[getattr(cell, axis)].add(number)
    variants = values if axis == "variant" else ()
    names = {found[0] for value in variants if (found := re.match("[a-z]+(?=[0-9])", value))}
    wide = {
        f"{name}*": set().union(*(held for value, held in values.items() if value.startswith(name)))
        for name in sorted(names)
    }
    plain = {value: held for value, held in values.items() if value}
    return {f"{axis}={glob}": held for glob, held in {**wide, **plain}.items()}


def _meet(
    some: Sequence[Mapping[str, set[int]]], lacking: set[int], count: int
) -> Iterator[tuple[str, set[int]]]:
    """Conditions of a word an axis that any of the lacking cells meets, with all that meet them."""
    if not some:
        yield "project=*", set(range(count))
        return
    own = [
        [[word for word, held in words.items() if number in held] for words in some]
        for number in sorted(lacking)
    ]
    for words in dict.fromkeys(chosen for each in own for chosen in product(*each)):
        held = [all_words[word] for all_words, word in zip(some, words, strict=True)]
        yield " ".join(words), set.intersection(*held)


def _write_channel(channel: CellChannel) -> Iterator[str]:
    yield f"[channels.{_key(channel.name)}]"
    for key, value in asdict(channel).items():
        if value is True:
            yield f"{key} = true"
        elif value and key != "name":
            yield f"{key} = {_quote(str(value))}"


def _write_block(group: _Group, block: Block, *, names_kind: bool) -> Iterator[str]:
    yield "[[cells]]"
    yield f"project = {_quote(group.project)}"
    if names_kind:
        yield f"kind = {_quote(group.kind)}"
    for name, values in zip(_COLUMNS, block, strict=True):
        if values != ("",):
            yield f"{'system' if name == 'host' else name} = {_list(values)}"


def _list(values: Sequence[str]) -> str:
    quoted = [_quote(value) for value in values]
    return quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quote(name)


def _quote(text: str) -> str:
    """A basic string of TOML, for what has no control characters."""
    return json.dumps(_CONTROL.sub("?", text), ensure_ascii=False)


def _comment(text: Iterable[str]) -> str:
    return _CONTROL.sub("?", one_line("".join(text)))
