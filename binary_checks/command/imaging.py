"""Lists the images in which packages run, builds, verifies, pins and removes them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from binary_checks.command import MISUSED, TRY_AGAIN, SubcommandParser, complain, suggest
from binary_checks.errors import GatherError, ProfileError, Unavailable
from binary_checks.exit_codes import PROBLEMS
from binary_checks.lines import one_line
from binary_checks.places.images import ImageEntry, ImageSettings, find_image, list_images
from binary_checks.places.images.image_cache import (
    CachedRoot,
    find_cache_folder,
    list_cached,
    remove_cached,
    verify_cached,
)
from binary_checks.places.images.image_entries import spell_host_architecture

_PURPOSE = "List the clean systems in which packages run, or build, verify, pin and remove some."


def run(arguments: Sequence[str]) -> int:
    """Do what is asked about images; returns the exit status."""
    if not sys.platform.startswith("linux"):
        complain("images: root file systems are built and run on Linux only")
        return MISUSED
    try:
        options = _read_options(arguments)
        return _ACTIONS[options.action](options, find_cache_folder())
    except ProfileError as error:
        complain(str(error))
        return MISUSED


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks images", description=_PURPOSE)
    parser.add_argument("action", choices=_ACTIONS, nargs="?", default="list")
    parser.add_argument("names", metavar="NAME", nargs="*", help="of images; see list --all")
    parser.add_argument("--file", metavar="IMAGES.toml", type=Path, help="images of your own")
    parser.add_argument("--all", action="store_true", help="for other architectures, too")
    options = parser.parse_args(arguments)
    if options.action in ("build", "pin", "remove") and not options.names:
        raise ProfileError(f"images: {options.action}: no image is named")
    return options


def _list(options: argparse.Namespace, cache: Path) -> int:
    built = {found.name: found for found in list_cached(cache)}
    _demand_known(options)
    entries = {each.name: each for each in list_images(ImageSettings(file=options.file))}
    host = spell_host_architecture()
    shown = [
        each
        for each in entries.values()
        if each.name in (options.names or entries)
        and (options.all or options.names or each.architecture in (host, "") or each.name in built)
    ]
    rows = [("image", "libc", "architecture", "python", "built"), *map(_describe(built), shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(one_line("  ".join(cells).rstrip()))
    total = sum(found.size for found in built.values())
    print(one_line(f"{len(built)} built, {_spell(total)}, in {cache}"))
    return 0


def _describe(built: dict[str, CachedRoot]) -> Callable[[ImageEntry], tuple[str, ...]]:
    def describe(entry: ImageEntry) -> tuple[str, ...]:
        found = built.get(entry.name)
        size = _spell(found.size) if found else "-"
        return entry.name, entry.libc or "-", entry.machine or "-", entry.python or "-", size

    return describe


def _spell(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _demand_known(options: argparse.Namespace) -> ImageSettings:
    """Raise ProfileError for a name that is no image's."""
    settings = ImageSettings(file=options.file, say=_tell)
    known = [each.name for each in list_images(settings)]
    for name in options.names:
        if name not in known:
            hint = suggest(name, known)
            raise ProfileError(f"images: {name}: there is no such image{hint}")
    return settings


def _build(options: argparse.Namespace, _cache: Path) -> int:
    settings = _demand_known(options)
    return _do(options.names, lambda name: _show_built(name, settings))


def _show_built(name: str, settings: ImageSettings) -> str:
    found = find_image(name, settings)
    return f"{name}: {found.libc} for {found.architecture}, sha256 {found.digest}"


def _pin(options: argparse.Namespace, _cache: Path) -> int:
    """Write what pins an image: a whole entry for a file of the user's own, or what one lacks."""
    settings = _demand_known(options)
    return _do(options.names, lambda name: "\n".join(_write_entry(name, settings)))


def _write_entry(name: str, settings: ImageSettings) -> Iterator[str]:
    found = find_image(name, settings)
    yield f"[images.{name if '.' not in name else repr(name)}]"
    if settings.file is None:
        yield f'base = "{name}"'
    yield f'digest = "{found.digest}"'
    yield from ("pinned = [", *(f'    "{each}",' for each in found.packages), "]")


def _verify(options: argparse.Namespace, cache: Path) -> int:
    found = _choose(options.names, cache)
    return _do(found, lambda name: _show_verified(found[name]))


def _show_verified(found: CachedRoot) -> str:
    verify_cached(found)
    return f"{found.name}: every byte is as it was built, sha256 {found.digest}"


def _remove(options: argparse.Namespace, cache: Path) -> int:
    found = _choose(options.names, cache)
    return _do(found, lambda name: _show_removed(found[name], cache))


def _show_removed(found: CachedRoot, cache: Path) -> str:
    remove_cached(found, cache)
    return f"{found.name}: removed, {_spell(found.size)}"


def _choose(names: Sequence[str], cache: Path) -> dict[str, CachedRoot]:
    """Choose roots of the cache, by the folder's name; all of them where none is named."""
    there = list_cached(cache)
    for name in names:
        if name not in {each.name for each in there}:
            raise ProfileError(f"images: {name}: it was not built")
    return {each.folder.name: each for each in there if not names or each.name in names}


def _do(names: Iterable[str], act: Callable[[str], str]) -> int:
    """Do it to one after the other, and say what came of each; the exit status of the worst."""
    statuses = [0]
    for name in names:
        try:
            print("\n".join(map(one_line, act(name).splitlines())))
        except Unavailable as error:
            statuses.append(TRY_AGAIN)
            complain(str(error))
        except GatherError as error:
            statuses.append(PROBLEMS)
            complain(str(error))
    return max(statuses)


def _tell(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)


_ACTIONS: dict[str, Callable[[argparse.Namespace, Path], int]] = {
    "list": _list,
    "build": _build,
    "verify": _verify,
    "pin": _pin,
    "remove": _remove,
}
