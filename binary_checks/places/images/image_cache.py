"""Keeps root file systems that were built, each whole or not at all, in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from binary_checks.cache_folder import name_cache_folder, take_turns
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model.root_filesystem import ImagePackage
from binary_checks.places.images.image_entries import ImageEntry
from binary_checks.places.images.root_tree import digest_tree, measure_tree, stamp_tree

_MANIFEST, _ROOT, _BUILT_IN = "manifest.json", "root", ".building-"
_KEY = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,63}@[0-9a-f]{12}")
_FORMAT = 1  # of how a tree is made: a root of another one is built anew


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedRoot:
    """A root file system that lies in the cache."""

    name: str  # of its image
    folder: Path  # of it and its manifest
    digest: str
    stamp: str
    size: int  # bytes
    packages: tuple[ImagePackage, ...]

    @property
    def root(self) -> Path:
        """The root itself."""
        return self.folder / _ROOT


def find_cache_folder() -> Path:
    """Find where images are kept; the folder need not be there."""
    return name_cache_folder() / "images"


def make_key(entry: ImageEntry) -> str:
    """Name the folder of an image: one that is made of other things has another one.

    What is pinned does not count: a root that was built before it was pinned is the same.
    """
    made_of = {
        name: value
        for name, value in asdict(entry).items()
        if name in {"suite", "architecture", "packages", "mirror", "keyring", "oci"}
    }
    text = json.dumps([_FORMAT, made_of], sort_keys=True)
    return f"{entry.name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def find_cached(entry: ImageEntry, cache: Path) -> CachedRoot | None:
    """Find a root that was built before, as it is pinned, and that nothing was written to since."""
    found = _read(cache / make_key(entry))
    if found is None or entry.digest not in ("", found.digest):
        return None
    with contextlib.suppress(GatherError):
        if stamp_tree(found.root) == found.stamp:
            return found
    return None


def list_cached(cache: Path) -> tuple[CachedRoot, ...]:
    """List what lies in the cache, by name."""
    folders = sorted(cache.iterdir()) if cache.is_dir() else []
    return tuple(found for each in folders if (found := _read(each)))


def verify_cached(found: CachedRoot) -> None:
    """Read all of a root; raises GatherError where it is no more what was built."""
    if digest_tree(found.root) != found.digest:
        raise GatherError(
            f"image:{found.name}: {found.root} is not what was built: something was written to it; "
            f"remove it with binary-checks images remove {found.name}"
        )


def remove_cached(found: CachedRoot, cache: Path) -> None:
    """Remove a root: at once out of sight, so that nobody takes half of it."""
    with lock(cache, found.folder.name, timeout=60):
        _remove(found.folder)


def add_root(
    entry: ImageEntry, cache: Path, build: Callable[[Path], tuple[ImagePackage, ...]]
) -> CachedRoot:
    """Build a root beside its place and move it there when it is whole; the caller has the lock."""
    key = make_key(entry)
    apart = cache / f"{_BUILT_IN}{key}"
    shutil.rmtree(apart, ignore_errors=True)  # of a process that was killed
    try:
        apart.mkdir()
        packages = build(apart / _ROOT)
        manifest = {
            "name": entry.name,
            "digest": digest_tree(apart / _ROOT),
            "stamp": stamp_tree(apart / _ROOT),
            "size": measure_tree(apart / _ROOT),
            "packages": [asdict(each) for each in packages],
        }
        text = json.dumps(manifest, indent=1)
        (apart / _MANIFEST).write_text(text + "\n", encoding="utf-8")
        _remove(cache / key)
        apart.rename(cache / key)
    except OSError as error:
        raise Unavailable(
            f"{error.filename or cache}: {error.strerror}: no image can be kept"
        ) from None
    finally:
        shutil.rmtree(apart, ignore_errors=True)
    made = _read(cache / key)
    assert made is not None
    return made


@contextlib.contextmanager
def lock(cache: Path, key: str, *, timeout: float) -> Iterator[None]:
    """Be the only process that builds or removes an image. Raises Unavailable at the time limit."""
    with ExitStack() as held:
        try:
            held.enter_context(take_turns(cache / f".{key}.lock", timeout))
        except TimeoutError:
            raise Unavailable(
                f"another process has been building it for more than {timeout:g} s"
            ) from None
        except OSError as error:
            raise Unavailable(f"{cache}: {error.strerror}: nothing can be kept there") from None
        yield


def _remove(folder: Path) -> None:
    if folder.exists():
        apart = folder.with_name(f"{_BUILT_IN}removed-{os.getpid()}-{folder.name}")
        folder.rename(apart)
        shutil.rmtree(apart, ignore_errors=True)


def _read(folder: Path) -> CachedRoot | None:
    """Read a manifest; None where there is none, or one that says nothing."""
    if not _KEY.fullmatch(folder.name) or not (folder / _ROOT).is_dir():
        return None
    try:
        said: Mapping[str, Any] = json.loads((folder / _MANIFEST).read_bytes())
        return CachedRoot(
            name=str(said["name"]),
            folder=folder,
            digest=str(said["digest"]),
            stamp=str(said["stamp"]),
            size=int(said["size"]),
            packages=tuple(ImagePackage(**each) for each in said["packages"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
