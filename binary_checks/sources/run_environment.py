"""The environment in which a run finds packages: interpreter, indexes, network."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binary_checks.errors import (
    BinaryChecksError,
    GatherError,
    PackageError,
    ProfileError,
    Unavailable,
)

if TYPE_CHECKING:
    from packaging.tags import Tag

    from binary_checks.indexes.index_places import IndexPlaces
    from binary_checks.model import Progress
    from binary_checks.places import PlaceSettings, Sandbox
    from binary_checks.places.existing import Folders
    from binary_checks.web.client import Client

_PATIENCE = 60.0  # seconds for an interpreter to start


_ERRORS = {kind.__name__: kind for kind in (GatherError, PackageError, ProfileError)}


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedPython:
    """A Python for which wheels are chosen."""

    version: str  # "3.12.0"
    tags: tuple[Tag, ...]  # tags that it accepts, best first
    label: str  # "cp312 on win_amd64"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The interpreter and pip's settings, each queried once for all packages of a run."""

    python: Path
    sandbox: Sandbox | None = None
    static: bool = False  # whether no installed code may run
    image: PlaceSettings | None = None  # the image that contains the installed packages
    target: str = ""  # another Python and system, "cp312-win_amd64", for which wheels are chosen
    # returns a callback for the download of a file
    progress: Callable[[str], Progress | None] | None = None
    _copies: list[Path] = field(default_factory=list)  # folders of this process
    shared_results: MutableMapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Results as simple values, by key. Other processes of this run use these results, and do not
    ask again.
    """

    def compute_once(self, key: str, find: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the result of ``find``, computed once for each key in this run.

        Errors are remembered, too.
        """
        if key not in self.shared_results:
            try:
                self.shared_results[key] = {"found": find()}
            except (GatherError, PackageError, ProfileError) as error:
                kind = next(name for name, each in _ERRORS.items() if isinstance(error, each))
                self.shared_results[key] = {"kind": kind, "error": str(error)}
        result = self.shared_results[key]
        if "error" in result:
            raise _ERRORS[result["kind"]](result["error"])
        found: Mapping[str, Any] = result["found"]
        return found

    def copy_from_image(self, name: str) -> Folders:
        """Return the folders of this host with copies of an image's packages.

        Raises GatherError, or ProfileError if the image does not contain the package.
        """
        from binary_checks import places
        from binary_checks.places.existing import Folders

        settings = self.image
        assert settings is not None

        def copy() -> dict[str, Any]:
            folder = Path(tempfile.mkdtemp(prefix="binary_checks-image-"))
            try:
                with places.InsidePlace(settings) as place:
                    found = place.copy((name,), folder)
            except BinaryChecksError as error:
                shutil.rmtree(folder, ignore_errors=True)
                absent = isinstance(error, Unavailable)
                raise ProfileError(str(error)) if absent else error from None
            self._copies.append(folder)
            return {"search": list(map(str, found.search)), "prefix": str(found.prefix)}

        found = self.compute_once(f"{settings.name.label} {name}", copy)
        search, prefix = found["search"], found["prefix"]
        return Folders(search=tuple(map(Path, search)), prefix=Path(prefix), versions={})

    def close(self) -> None:
        """Remove the copies that this process made."""
        for folder in self._copies:
            shutil.rmtree(folder, ignore_errors=True)

    def watch(self, name: str) -> Progress | None:
        """Return a callback for the progress of a download, or None."""
        return self.progress(name) if self.progress is not None else None

    def connect(self, url: str = "") -> Client:
        """Return the client of this run, with the user's settings; ``file:`` URLs need none."""
        return self._local_client if url[:5].lower() == "file:" else self._client

    @cached_property
    def _local_client(self) -> Client:
        from binary_checks.web.client import Client
        from binary_checks.web.web_settings import WebSettings

        return Client(WebSettings())

    @cached_property
    def _pip_settings(self) -> Mapping[str, str]:
        from binary_checks.places.index_settings import read_pip_settings

        return read_pip_settings()

    @cached_property
    def _client(self) -> Client:
        from binary_checks.processes import user_environment
        from binary_checks.web.client import Client
        from binary_checks.web.web_settings import read_web_settings

        client = Client(read_web_settings(self._pip_settings, user_environment()))
        for index in (*self.index_places.indexes, *self.index_places.links):
            client.store_credentials(index)
        return client

    @cached_property
    def index_places(self) -> IndexPlaces:
        """The indexes from which the user's packages come."""
        from binary_checks.indexes.index_places import read_index_places
        from binary_checks.processes import user_environment

        return read_index_places(self._pip_settings, user_environment())

    @cached_property
    def tagged_python(self) -> TaggedPython:
        """The Python for which wheels are chosen. Raises ProfileError or GatherError."""
        if self.target:
            from binary_checks.places.foreign_tags import read_target_name

            there = read_target_name(self.target)
            version = "{}.{}.0".format(*there.version)
            label = f"{there.abi} on {there.platforms[0]}"
            return TaggedPython(version=version, tags=there.tags, label=label)
        if os.path.realpath(self.python) == os.path.realpath(sys.executable):
            from packaging.tags import sys_tags

            return _label(platform.python_version(), tuple(sys_tags()))
        from binary_checks.places.running import identify

        try:
            # also in static mode: no installed code runs
            asked = identify(self.python, timeout=_PATIENCE, site=False)
        except BinaryChecksError as error:
            raise ProfileError(f"--binary-python: {error}") from None
        return _label(asked.version, asked.ranked_tags)

    @cached_property
    def folders(self) -> Folders:
        """The folders where the interpreter finds packages, without running code.

        Raises GatherError.
        """
        from binary_checks import places  # few runs need it

        return places.list_folders(self.python, timeout=_PATIENCE, site=False)

    @cached_property
    def folders_by_code(self) -> Folders | None:
        """The folders that an import searches; None if code may not run, or adds no folders."""
        from binary_checks import places

        if self.static or not self.folders.unread:
            return None
        return places.list_folders(self.python, timeout=_PATIENCE, sandbox=self.sandbox)


def _label(version: str, tags: tuple[Tag, ...]) -> TaggedPython:
    if not tags:
        raise GatherError("the interpreter accepts no wheels")
    first = next((tag for tag in tags if not tag.platform.startswith("linux_")), tags[0])
    label = f"{first.interpreter} on {first.platform}"
    return TaggedPython(version=version, tags=tags, label=label)
