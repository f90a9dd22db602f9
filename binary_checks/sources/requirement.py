"""Packages on an index, named as for pip: ``numpy==2.4.6``, ``index:numpy``."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from binary_checks.errors import ProfileError
from binary_checks.model import Provenance
from binary_checks.sources.remote import Found, RemoteSource, look_at, share_found
from binary_checks.sources.run_environment import Surroundings

LABEL = "index:"
"""Prefix of a project to find on an index; it may have no version."""
_PACKAGES = (".whl", ".conda", ".tar.bz2", ".tar.gz", ".tar.xz", ".tgz", ".zip", ".egg")
_SPECIFIED = re.compile(r"[A-Za-z0-9][\w.-]*\s*(?:\[[\w\s,.-]*\])?\s*(?:[=~!]=|[<>])")


def parse(argument: str, folder: Path) -> NamedRequirement | None:
    """Read an argument with a version specifier, or with ``index:``, that is not a path.

    An argument is a path if the path exists, contains a separator, or has a package's suffix: a
    typo must not become a download.
    """
    if argument.startswith(LABEL):
        return NamedRequirement(text=argument.removeprefix(LABEL).strip(), folder=folder)
    if not _SPECIFIED.match(argument) or _is_path(argument, folder):
        return None
    return NamedRequirement(text=argument.strip(), folder=folder)


def _is_path(argument: str, folder: Path) -> bool:
    if {"/", "\\", "\0"} & set(argument) or argument.lower().endswith(_PACKAGES):
        return True
    try:
        return (folder / argument).exists()
    except (OSError, ValueError):
        return True


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedRequirement:
    """A package on an index, as the user named it."""

    text: str  # "numpy==2.4.6"
    folder: Path  # the current folder

    @property
    def path(self) -> Path:
        """The requirement, without extras, as a path in the current folder.

        Extras are left out because they do not change which file is chosen.
        """
        bare = re.sub(r"\[[^\]]*\]|\s", "", self.text)
        bare = bare.replace("/", "_").replace("\\", "_")
        return self.folder / (bare if _SPECIFIED.match(bare) else f"{LABEL}{bare}")

    def resolve(self, surroundings: Surroundings) -> RemoteSource:
        """Choose the package that a user would get. Raises ProfileError or GatherError."""
        wanted = _read(self.text)
        key = f"requirement {self.text} for {surroundings.target}"
        choose = partial(_choose, wanted, self.text, surroundings)
        return share_found(self.path, key, choose, surroundings)


def _read(text: str) -> Requirement:
    if not text:
        raise ProfileError(f"a name must follow {LABEL}, as in {LABEL}numpy")
    try:
        wanted = Requirement(text)
    except (InvalidRequirement, ValueError):
        raise ProfileError(f"{text}: not a requirement such as numpy==2.4.6") from None
    if wanted.url is not None:
        raise ProfileError(f"{text}: give only the URL, without the name")
    if wanted.marker is not None:
        raise ProfileError(f"{text}: a marker has no effect here: remove it")
    return wanted


def _choose(wanted: Requirement, text: str, surroundings: Surroundings) -> Found:
    from binary_checks.indexes.choice import WheelRequest, choose
    from binary_checks.indexes.index_places import list_files
    from binary_checks.indexes.simple_page import metadata_url
    from binary_checks.web.addresses import show

    places = surroundings.index_places
    python = surroundings.tagged_python
    project = canonicalize_name(wanted.name)
    wish = WheelRequest(
        asked=text,
        project=project,
        specifier=wanted.specifier,
        tags=python.tags,
        python=python.version,
        label=python.label,
        prereleases=places.prereleases,
    )
    listed = list_files(surroundings.connect(), places, project)
    file = choose(listed, wish, places.name())
    names, version = {each.file_name for each in listed}, _read_version(file.file_name, project)
    provenance = Provenance(
        asked=text,
        kind="index",
        url=show(file.url),
        index=file.index,
        sha256=file.hashes.get("sha256", ""),
        size=file.size,
        uploaded=file.uploaded,
        requires_python=file.requires_python,
        yanked=file.yanked,
        metadata_hash=file.metadata_hash,
        attestation="present, not verified" if file.provenance else "",
        serial=file.serial,
    )
    return Found(
        url=file.url,
        file_name=file.file_name,
        key=file.hashes.get("sha256") or look_at(surroundings.connect(), file.url).key,
        hashes=dict(file.hashes),
        size=file.size,
        stated_by=file.index,
        provenance=asdict(provenance),
        metadata_url=metadata_url(file.url) if file.metadata else "",
        siblings=tuple(sorted(name for name in names if _read_version(name, project) == version)),
    )


def _read_version(file_name: str, project: str) -> Version | None:
    try:
        if file_name.endswith(".whl"):
            name, version = parse_wheel_filename(file_name)[:2]
        else:
            name, version = parse_sdist_filename(file_name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion, ValueError):
        return None
    return version if name == project else None
