"""Clean systems in which packages are loaded and imported: found by name, or built once."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model.root_filesystem import ImagePackage, RootFilesystem
from binary_checks.places.images.image_entries import (
    ImageEntry,
    read_entries,
    spell_host_architecture,
)
from binary_checks.places.images.root_folders import (
    find_loader,
    find_pythons,
    read_libc,
    read_machine,
)

_RUNNER = "/run/runner"  # where each root has an empty file
_PATIENCE = 900.0  # seconds for a build: 5 are usual, on a slow line a hundred
_NATIVE = {"x86_64": ("x86_64", "i686"), "aarch64": ("aarch64",)}
"""What the kernel of a machine runs by itself: not every 64-bit ARM has the 32-bit one."""
_QEMU = {"armv7l": "arm", "i686": "i386"}
"""How qemu spells an architecture, where it is not as the model does."""
# With the default one, pointers are authenticated in software: six times as slow.
_MODELS = {"aarch64": ("-cpu", "neoverse-n1")}


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSettings:
    """How images are found and built."""

    file: Path | None = None  # of the user's own images
    cache: Path | None = None  # where they are kept; None: in the user's cache folder
    timeout: float = _PATIENCE  # seconds for a build
    builds: bool = True  # whether one that is not in the cache is built
    say: Callable[[str], None] = field(default=lambda _text: None)  # what is going on


def list_images(settings: ImageSettings | None = None) -> tuple[ImageEntry, ...]:
    """List the images that there are, whether or not they were built."""
    return tuple(read_entries((settings or ImageSettings()).file).values())


def find_image(name: str, settings: ImageSettings | None = None) -> RootFilesystem:
    """Find an image by name, or a root file system by its folder; one that lacks is built.

    Raises Unavailable with the reason, and what to do about it, ProfileError for a file of images
    that says something that cannot be followed.
    """
    try:
        return _find(name, settings or ImageSettings())
    except (GatherError, Unavailable) as error:
        raise type(error)(f"image:{name}: {error}") from None


def _find(name: str, settings: ImageSettings) -> RootFilesystem:
    if not sys.platform.startswith("linux"):
        raise Unavailable("a root file system is run on Linux only")
    if "/" in name:
        return _complete(name, Path(name).absolute())
    return _find_built(_find_entry(name, settings), settings)


def _find_built(entry: ImageEntry, settings: ImageSettings) -> RootFilesystem:
    """Find the root of an entry in the cache, or build it."""
    from binary_checks.places.images import image_cache

    if entry.machine:
        find_runner(entry.machine)  # what nothing here runs is not built first
    cache = settings.cache or image_cache.find_cache_folder()
    found = image_cache.find_cached(entry, cache)
    if found is None:
        if not settings.builds:
            raise Unavailable(f"it was not built; run binary-checks images build {entry.name}")
        with image_cache.lock(cache, image_cache.make_key(entry), timeout=settings.timeout):
            found = image_cache.find_cached(entry, cache)  # somebody built it meanwhile
            found = found or image_cache.add_root(
                entry, cache, lambda root: _build(entry, root, settings)
            )
    return _complete(
        entry.name,
        found.root,
        lacks=entry.lacks,
        digest=found.digest,
        packages=found.packages,
    )


def _find_entry(name: str, settings: ImageSettings) -> ImageEntry:
    entries = read_entries(settings.file)
    host = spell_host_architecture()
    if (own := name.removesuffix(f"-{host}")) in entries:  # its architecture was named, too
        return entries[own]
    if name not in entries:
        close = get_close_matches(name, entries, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise Unavailable(f"there is no such image{hint}; binary-checks images lists them")
    return entries[name]


def _build(entry: ImageEntry, root: Path, settings: ImageSettings) -> tuple[ImagePackage, ...]:
    from binary_checks.places.images.debian_roots import build_root
    from binary_checks.places.images.oci_images import pull_root
    from binary_checks.places.images.root_tree import digest_tree

    packages: tuple[ImagePackage, ...] = ()
    if entry.oci:
        settings.say(f"exporting image:{entry.name} of {entry.oci}")
        pull_root(entry, root, timeout=settings.timeout)
    else:
        settings.say(f"building image:{entry.name} of {entry.suite} for {entry.architecture}")
        packages = build_root(entry, root, timeout=settings.timeout)
    if entry.pinned and (moved := list(_find_moved(entry.pinned, packages))):
        raise Unavailable(
            f"it cannot be built as it is pinned, for packages have moved: "
            f"{', '.join(moved)}; pin it anew, or name a mirror that keeps them"
        )
    if entry.digest and digest_tree(root) != entry.digest:
        raise Unavailable(
            f"its digest is another one than is pinned"
            f"{', of the same packages' * bool(entry.pinned)}; pin it anew"
        )
    return packages


def _find_moved(pinned: Iterable[str], packages: Iterable[ImagePackage]) -> Iterator[str]:
    """Find how the packages differ from those that were pinned."""
    wanted = {text.partition("=")[0]: text.split("=")[1:] for text in pinned}
    found = {each.name: each for each in packages}
    for name, (version, sha256) in wanted.items():
        there = found.get(name)
        if there is None:
            yield f"{name} {version} is gone"
        elif there.version != version:
            yield f"{name} {version} is now {there.version}"
        elif there.sha256 != sha256:
            yield f"{name} {version} has other bytes"
    for name in found.keys() - wanted.keys():
        yield f"{name} {found[name].version} is new"


def _complete(
    name: str,
    root: Path,
    *,
    lacks: tuple[str, ...] = (),
    digest: str = "",
    packages: tuple[ImagePackage, ...] = (),
) -> RootFilesystem:
    """Read from the root's own bytes what it is, and find what runs its programs."""
    if not root.is_dir():
        raise Unavailable(f"{root}: there is no such folder")
    loader = find_loader(root)
    machine = read_machine(root, loader)
    runner = find_runner(machine)
    words = (_RUNNER, *_MODELS.get(machine, ())) if runner else ()
    return RootFilesystem(
        name=name,
        path=root,
        libc=read_libc(root, loader),
        architecture=machine,
        loader=loader,
        pythons=find_pythons(root),
        digest=digest,
        packages=packages,
        runner=words,
        binds=tuple((path, _RUNNER) for path in runner),
        lacks=lacks,
        reservation=_reserve(machine) if runner else "",
    )


def find_runner(machine: str) -> tuple[Path, ...]:
    """Find the emulator for an architecture; () where the kernel runs it.

    Raises Unavailable, with what to install, where there is none.
    """
    import platform

    host = platform.machine()
    if machine in _NATIVE.get(host, (host,)):
        return ()
    if not machine:
        raise Unavailable("its loader is for an architecture that we do not know")
    program = f"qemu-{_QEMU.get(machine, machine)}-static"
    path = shutil.which(program)
    if path is None:
        raise Unavailable(
            f"this {host} runs no program for {machine}: there is no {program}; "
            "install qemu-user-static"
        )
    return (Path(path).resolve(),)


def _reserve(machine: str) -> str:
    return f"{machine} was emulated by qemu: timings and rare instructions are not the machine's"


__all__ = [
    "ImageEntry",
    "ImageSettings",
    "RootFilesystem",
    "find_image",
    "list_images",
]
