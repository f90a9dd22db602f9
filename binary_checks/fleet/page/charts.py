"""Pictures of a few dozen numbers, as inline SVG that takes its colours from the page's style."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_STEP, _HEIGHT = 8, 26  # of a pulse, in pixels
_LEAST = 2.0  # pixels of a bar that stands for anything at all
_WIDTH, _TALL = 640.0, 120.0  # of a chart
_PARTS = ("native", "debug", "device", "python", "metadata", "other")
"""The colours of parts, as the HTML report has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A rectangle with a tone, and the words for who points at it."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulse:
    """A bar a night: how much of a project was not well."""

    width: float
    height: float
    bars: tuple[Bar, ...]
    said: str  # the same in words


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A line, or bars on top of each other, over nights."""

    width: float
    height: float
    bars: tuple[Bar, ...] = ()
    lines: tuple[str, ...] = ()  # points of polylines
    dots: tuple[tuple[float, float, str], ...] = ()  # and what each says
    top: str  # how the highest value is spelled
    first: str  # the nights at both ends
    last: str
    legend: tuple[tuple[str, str], ...] = ()  # tone and word
    said: str


def draw_pulse(troubles: Sequence[tuple[str, int, int, int]]) -> Pulse:
    """Of night, cells, failed ones, and ones that could not be judged; the oldest first."""
    bars = list[Bar]()
    for index, (night, cells, failed, unjudged) in enumerate(troubles):
        x, floor = index * _STEP, float(_HEIGHT)
        title = f"{night}: {failed} of {cells} failed, {unjudged} not judged"
        for tone, number in (("bad", failed), ("mild", unjudged)):
            if number:
                tall = max(round(number / cells * _HEIGHT, 1), _LEAST)
                floor = round(max(floor - tall, 0.0), 1)
                bars.append(Bar(x=x, y=floor, width=_STEP - 2, height=tall, tone=tone, title=title))
        if not failed and not unjudged:
            bars.append(Bar(x=x, y=_HEIGHT - 1, width=_STEP - 2, height=1, tone="ok", title=title))
    worst = max((failed for _, _, failed, _ in troubles), default=0)
    return Pulse(
        width=max(len(troubles) * _STEP, 1),
        height=_HEIGHT,
        bars=tuple(bars),
        said=f"Cells that failed in each of {len(troubles)} nights: at most {worst}",
    )


def draw_line(values: Sequence[tuple[str, float]], spell: Callable[[float], str]) -> Chart | None:
    """One number a night, the oldest first; nothing of fewer than two."""
    if len(values) < 2:
        return None
    highest = max(value for _, value in values) or 1.0
    step = _WIDTH / (len(values) - 1)
    points = [
        (round(index * step, 1), _raise(value, highest)) for index, (_, value) in enumerate(values)
    ]
    return Chart(
        width=_WIDTH,
        height=_TALL,
        lines=(" ".join(f"{x},{y}" for x, y in points),),
        dots=tuple(
            (x, y, f"{night}: {spell(value)}")
            for (x, y), (night, value) in zip(points, values, strict=True)
        ),
        top=spell(highest),
        first=values[0][0],
        last=values[-1][0],
        said=f"From {spell(values[0][1])} to {spell(values[-1][1])}, at most {spell(highest)}",
    )


def draw_stacks(
    nights: Sequence[tuple[str, Mapping[str, float]]],
    spell: Callable[[float], str],
    tones: Mapping[str, str] | None = None,
) -> Chart | None:
    """Several numbers a night on top of each other, the largest at the bottom.

    ``tones`` gives their colours by name; without it they have those of parts.
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
    return Chart(
        width=_WIDTH,
        height=_TALL,
        bars=tuple(_stack(nights, names, tones, max(whole), spell)),
        top=spell(max(whole)),
        first=nights[0][0],
        last=nights[-1][0],
        legend=tuple((tones[name], name) for name in names),
        said=f"From {spell(whole[0])} to {spell(whole[-1])}, at most {spell(max(whole))}",
    )


def _stack(
    nights: Sequence[tuple[str, Mapping[str, float]]],
    names: Iterable[str],
    tones: Mapping[str, str],
    highest: float,
    spell: Callable[[float], str],
) -> Iterator[Bar]:
    names = [*names]
    step = _WIDTH / len(nights)
    for index, (night, parts) in enumerate(nights):
        floor = _TALL
        for name in names:
            tall = round(parts.get(name, 0) / highest * _TALL, 2)
            if tall <= 0:
                continue
            floor = round(floor - tall, 2)
            yield Bar(
                x=round(index * step, 1),
                y=floor,
                width=round(min(step - 1.5, 40), 1),
                height=tall,
                tone=tones[name],
                title=f"{night}: {name}, {spell(parts[name])}",
            )


def _raise(value: float, highest: float) -> float:
    """How far from the top a value lies, with room for the line's width."""
    return round(_TALL - 2 - value / highest * (_TALL - 4), 1)
