"""Charts of a few dozen numbers, as inline SVG.

Charts take their colours from the page's style.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from binary_checks.fleet.page.night_reading import Row
from binary_checks.reports.html.templating import format_size

_WIDTH, _TALL = 300.0, 110.0  # size of the plot in a chart
_WIDEST = 28.0  # width of a bar
_LABELLED = 4  # nights that all have a label on the axis; of more nights three have one
_INTERVALS = 4  # most intervals of the vertical axis
_PARTS = ("native", "debug", "device", "python", "metadata", "other")
"""CSS classes of a package's parts, as in the HTML report."""
_MINUTE, _HOUR = 60.0, 3600.0
_ROUND_TIMES = (
    *(0.1, 0.2, 0.5),
    *(count * unit for unit in (1.0, _MINUTE) for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""Distances in seconds between two values on an axis of durations."""


Chart = dict[str, Any]
"""Stacked bars over nights; coordinates count from the top left of the plot.

`bars` have position, size, tone and tooltip; `levels` and `days` are the labels of the axes, with
their positions.
"""


def draw_numbers(
    rows: Iterable[Row],
    column: str,
    format_number: Callable[[float], str],
    *,
    durations: bool = False,
) -> Chart | None:
    """Return a bar for one number of each night, the oldest first; None without a number.

    Nights without a number are left out. Numbers are seconds if they are ``durations``, which have
    other round values.
    """
    numbers = [(row["night"], {column: float(row[column])}) for row in rows if row[column]]
    distances = _ROUND_TIMES if durations else ()
    return draw_stacks(numbers, format_number, distances=distances)


def draw_states(rows: Iterable[Row]) -> Chart | None:
    """Return a chart of the numbers of failed cells and of cells without a verdict, each night."""
    counts = [
        (row["night"], {"failed": row["failed"], "not judged": row["unjudged"]}) for row in rows
    ]
    tones = {"failed": "bad", "not judged": "mild"}
    return draw_stacks(counts, lambda number: f"{number:,.0f}", tones, least=1.0)


def draw_sizes(rows: Iterable[Row]) -> Chart | None:
    """Draw the installed size by part if it is known for every file, else the file's size."""
    sized = [row for row in rows if row["size"]]
    if not sized or not all(row["parts"] for row in sized):
        return draw_numbers(sized, "size", format_size)
    parts = [
        (row["night"], {name: size for name, size in row["parts"].items() if size}) for row in sized
    ]
    return draw_stacks(parts, format_size)


def draw_stacks(
    nights: Sequence[tuple[str, Mapping[str, float]]],
    format_number: Callable[[float], str],
    tones: Mapping[str, str] | None = None,
    *,
    distances: Sequence[float] = (),
    least: float = 0.0,
) -> Chart | None:
    """Return stacked bars of several numbers a night, the largest at the bottom.

    ``tones`` maps names to tones; by default, parts of a package have tones of their own. The
    values of the axis are at one of the ``distances``, or multiples of ``least``, as numbers of
    cells are of 1.
    """
    whole = [sum(parts.values()) for _, parts in nights]
    if not any(whole):
        return None
    sums = Counter[str]()
    for _, parts in nights:
        sums.update(parts)
    names = [name for name, _ in sorted(sums.items(), key=lambda each: (-each[1], each[0]))]
    if tones is None:
        tones = {name: _PARTS[min(index, len(_PARTS) - 1)] for index, name in enumerate(names)}
    axis = _divide_axis(max(whole), distances, least=least)
    return {
        "width": _WIDTH,
        "height": _TALL,
        # 0 is the same without a unit
        "levels": [
            (round(_TALL - each / axis[-1] * _TALL, 1), format_number(each) if each else "0")
            for each in axis
        ],
        "days": [*_label_nights([night for night, _ in nights])],
        "bars": [*_stack(nights, names, tones, axis[-1], format_number)],
        "legend": [(tones[name], name) for name in names],
        "summary": _sum_up(whole, format_number),
    }


def _divide_axis(
    highest: float, distances: Sequence[float] = (), *, least: float = 0.0
) -> list[float]:
    """Return round values from 0 to the highest value or just above it, a few at equal distances.

    Without ``distances`` to choose from, they are 1, 2, 2.5 or 5 times a power of ten, and
    multiples of ``least``.
    """
    highest = highest or 1.0
    power = 10.0 ** floor(log10(highest / _INTERVALS))
    decimal = [power * factor for factor in (1, 2, 2.5, 5, 10)]
    if least:
        decimal = [each for each in decimal if (each / least).is_integer()]
    wanted = [each for each in distances if each * _INTERVALS >= highest] or [
        each for each in decimal if each * _INTERVALS >= highest * (1 - 1e-9)
    ]
    distance = wanted[0]
    return [distance * index for index in range(max(ceil(highest / distance - 1e-9), 1) + 1)]


def _label_nights(nights: Sequence[str]) -> Iterator[tuple[float, str, str]]:
    """Yield position, label and its anchor: for all nights, or for the first, middle and last."""
    step = _WIDTH / len(nights)
    if len(nights) <= _LABELLED:
        chosen = dict.fromkeys(range(len(nights)), "middle")
    else:
        middle = (len(nights) - 1) // 2
        chosen = {0: "start", middle: "middle", len(nights) - 1: "end"}
    for index, anchor in chosen.items():
        side = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        yield round((index + side) * step, 1), nights[index], anchor


def _stack(
    nights: Sequence[tuple[str, Mapping[str, float]]],
    names: Sequence[str],
    tones: Mapping[str, str],
    highest: float,
    format_number: Callable[[float], str],
) -> Iterator[tuple[float, float, float, float, str, str]]:
    step = _WIDTH / len(nights)
    width = round(min(step * 0.85, _WIDEST), 1)
    for index, (night, parts) in enumerate(nights):
        bottom = _TALL
        for name in names:
            tall = round(parts.get(name, 0) / highest * _TALL, 2)
            if tall <= 0:
                continue
            bottom = round(bottom - tall, 2)
            left = round((index + 0.5) * step - width / 2, 1)
            title = f"{night}: {name}, {format_number(parts[name])}"
            yield left, bottom, width, tall, tones[name], title


def _sum_up(values: Sequence[float], format_number: Callable[[float], str]) -> str:
    """Return a description of a chart in words."""
    if len(values) == 1:
        return format_number(values[0])
    first, last, highest = (
        format_number(values[0]),
        format_number(values[-1]),
        format_number(max(values)),
    )
    if first == last == highest:
        return f"{last} throughout"
    ends = f"{first} to {last}" if first != last else f"{first} at both ends"
    return ends if highest in {first, last} else f"{ends}, at most {highest}"
