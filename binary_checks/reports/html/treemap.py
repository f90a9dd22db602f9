"""A treemap: the bytes of a package's installed files, divided into rectangles by use."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from binary_checks.model import DeviceLinking, Kind, Member, ObjectFile, Package
from binary_checks.reports.html.templating import format_size, shorten
from binary_checks.safe_text import one_line

WIDTH, HEIGHT = 1012.0, 380.0
_MOST = 60
"""Tiles of a group; all further files share one tile."""
_LEAST = 1 / 1500
"""The smallest share of the whole that has its own tile, which is then 15 pixels wide."""
_HEADING = 20.0
_CHARACTER = 6.7  # pixels of a character in the font of the tiles

_Rectangle = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True, kw_only=True, slots=True)
class Tile:
    """A rectangle, its name, and the part of the name that fits into it."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str
    label: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A row of the table below the treemap: everything in the package that has one use."""

    tone: str
    name: str
    size: str
    percent: str
    parts: str  # number and kind of parts


@dataclass(frozen=True, kw_only=True, slots=True)
class Treemap:
    """The rectangles of one package, with its table."""

    whole: str
    packed: str
    shares: tuple[Share, ...]
    tiles: tuple[Tile, ...]
    width: float = WIDTH
    height: float = HEIGHT


@dataclass(frozen=True, kw_only=True, slots=True)
class _Use:
    """One purpose that bytes of a package serve, and the sizes of these bytes."""

    tone: str
    name: str
    part: str
    sizes: Counter[str] = field(default_factory=Counter)  # bytes by file, or by architecture


def draw_treemap(package: Package) -> Treemap | None:
    """Return the treemap of a package, or None if it has no contents."""
    uses = [use for use in _share_out(package) if use.sizes.total() > 0]
    whole = sum(use.sizes.total() for use in uses)
    if not whole:
        return None
    uses.sort(key=lambda use: -use.sizes.total())
    packed = sum(each.compressed_size for each in package.members)
    return Treemap(
        whole=format_size(whole),
        packed=format_size(packed) if packed else "",
        shares=tuple(_tabulate(use, whole) for use in uses),
        tiles=tuple(_tiles(uses, whole)),
    )


def _share_out(package: Package) -> Iterable[_Use]:
    native = _Use(tone="native", name="Native code", part="file")
    debug = _Use(tone="debug", name="Debug information", part="file")
    device = _Use(tone="device", name="GPU code", part="architecture")
    python = _Use(tone="python", name="Python", part="file")
    metadata = _Use(tone="metadata", name="Metadata", part="file")
    other = _Use(tone="other", name="Data", part="file")
    objects = defaultdict(list)
    for item in package.objects:
        objects[item.path].append(item)
    for member in package.members:
        name = package.layout.shorten(member.path)
        if member.is_directory or member.target:
            continue
        if member.path in objects:
            _share_object(member, objects[member.path], name, (native, debug, device))
        elif ".dist-info/" in member.path or member.path.startswith("info/"):
            metadata.sizes[name] += member.size
        elif name.endswith((".py", ".pyc", ".pyi", ".pyx", ".pxd")):
            python.sizes[name] += member.size
        else:
            (debug if name.lower().endswith(".pdb") else other).sizes[name] += member.size
    return native, debug, device, python, metadata, other


def _share_object(
    member: Member, slices: Iterable[ObjectFile], name: str, uses: tuple[_Use, _Use, _Use]
) -> None:
    """Divide one object's bytes among uses.

    If the sizes that an object states exceed the file's size, the rest is ignored.
    """
    native, debug, device = uses
    left = member.size
    for item in slices:
        for code in getattr(item, "device_code", ()):
            linking = "" if code.linking is DeviceLinking.WHOLE else code.linking.value
            target = " ".join(filter(None, (code.architecture, code.kind.value, linking)))
            taken = max(min(code.bytes, left), 0)
            device.sizes[target] += taken
            left -= taken
        whole = item.size if item.kind is Kind.DEBUG else getattr(item, "debug_bytes", 0)
        taken = max(min(whole, left), 0)
        debug.sizes[name] += taken
        left -= taken
    native.sizes[name] += left


def _tabulate(use: _Use, whole: int) -> Share:
    size = use.sizes.total()
    count = sum(1 for each in use.sizes.values() if each)
    return Share(
        tone=use.tone,
        name=use.name,
        size=format_size(size),
        percent=f"{size / whole:.1%}",
        parts=f"{count:,} {use.part}{'' if count == 1 else 's'}",
    )


def _tiles(uses: Iterable[_Use], whole: int) -> Iterator[Tile]:
    uses = list(uses)
    sizes = {str(index): use.sizes.total() for index, use in enumerate(uses)}
    for key, (x, y, width, height) in _squarify(sizes, (0.0, 0.0, WIDTH, HEIGHT)):
        use = uses[int(key)]
        size = use.sizes.total()
        title = f"{use.name}: {format_size(size)}"
        label = title if _fits(title, width) else use.name
        roomy = width > 40 and height > _HEADING * 2
        label = label if _fits(label, width) and height > _HEADING else ""
        yield _tile((x, y, width, height), tone=f"{use.tone} group", title=title, label=label)
        if roomy:
            inner = (x + 2, y + _HEADING, width - 4, height - _HEADING - 2)
            yield from _inner_tiles(use, whole, inner)


def _inner_tiles(use: _Use, whole: int, box: _Rectangle) -> Iterator[Tile]:
    ranked = use.sizes.most_common()
    shown = dict(each for each in ranked[:_MOST] if each[1] > whole * _LEAST)
    rest = ranked[len(shown) :]
    if left := sum(size for _, size in rest):
        shown[""] = left
    for name, (x, y, width, height) in _squarify(shown, box):
        spelled = one_line(name) or f"{len(rest):,} more"
        size = format_size(shown[name])
        short = shorten(spelled.rpartition("/")[2], int((width - 8) / _CHARACTER))
        roomy = height > 16 and width > 44
        yield _tile(
            (x, y, width, height),
            tone=use.tone,
            title=f"{shorten(spelled, 200)}: {size}",
            label=short if roomy else "",
            detail=size if roomy and height > 32 and _fits(size, width) else "",
        )


def _fits(text: str, width: float) -> bool:
    return len(text) * _CHARACTER < width - 8


def _tile(box: _Rectangle, *, tone: str, title: str, label: str, detail: str = "") -> Tile:
    x, y, width, height = box
    return Tile(
        x=round(x, 1),
        y=round(y, 1),
        width=round(max(width - 1, 0.5), 1),
        height=round(max(height - 1, 0.5), 1),
        tone=tone,
        title=title,
        label=label,
        detail=detail,
    )


def _squarify(sizes: Mapping[str, int], box: _Rectangle) -> Iterator[tuple[str, _Rectangle]]:
    """Yield a rectangle for each size; enlarge rectangles that are too thin."""
    import squarify

    x, y, width, height = box
    least = sum(sizes.values()) / 1000
    ranked = sorted(((max(size, least), name) for name, size in sizes.items()), reverse=True)
    areas = squarify.normalize_sizes([size for size, _ in ranked], width, height)
    rectangles = squarify.squarify(areas, x, y, width, height)
    for (_, name), found in zip(ranked, rectangles, strict=True):
        yield name, (found["x"], found["y"], found["dx"], found["dy"])
