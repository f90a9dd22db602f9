"""Verifies a repository from the store alone: bytes, documents, channels and their indexes.

What cannot be read is said, and never passes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channel_index import (
    ChannelView,
    find_differences,
    is_indexed,
    view_known_channel,
)
from binary_checks.fleet.artifacts.channel_members import list_channels
from binary_checks.fleet.artifacts.derived_index import DerivedIndex
from binary_checks.fleet.artifacts.kept_artifacts import list_artifacts
from binary_checks.fleet.artifacts.kept_verdicts import open_verdict
from binary_checks.fleet.artifacts.verified_bytes import hash_object, verify_artifact
from binary_checks.fleet.artifacts.verified_promotions import (
    Verifier,
    open_promotion,
    verify_promotions,
)
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.safe_names import is_safe_part
from binary_checks.fleet.store.store_names import (
    DERIVED,
    FACTS,
    PACKAGES,
    artifact_name,
    companion_name,
    expired_name,
    metadata_name,
    package_name,
)

_AT_ONCE = 4  # files; two cores hash more than most disks and networks give
_FEW = 3  # pages that a line names
_DIGEST = re.compile(rf"{PACKAGES}[0-9a-f]{{2}}/([0-9a-f]{{64}})/(.+)")
_APPENDED = ("verdicts/", "promotions/")
"""What may lie beside an artifact without its document saying so: it came later."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """Something that is wrong, or that could not be looked at."""

    about: str  # a file name, or a channel
    text: str
    looked: bool = True  # False: whether it is wrong nobody knows


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyScope:
    """What is verified: some channels with their members, or all that a store keeps."""

    store: Store
    channels: Mapping[str, ChannelView]
    artifacts: Mapping[str, Artifact]  # by SHA-256
    names: Mapping[str, int]  # sizes of all objects below packages/
    facts: Mapping[str, tuple[str, ...]]  # by SHA-256: the objects below facts/
    whole: bool  # all channels, and what is in none
    indexed: frozenset[str] = frozenset()  # channels that have an index
    faults: tuple[Remark, ...] = ()  # met while this was read
    by: Verifier = field(default_factory=Verifier)  # the person who verifies

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(each.size for each in self.artifacts.values())

    @property
    def unfinished(self) -> frozenset[str]:
        """The SHA-256 of what a push has left that did not end, or that goes on: it counts not."""
        digests = {found[1] for name in self.names if (found := _DIGEST.fullmatch(name))}
        return frozenset(each for each in digests if artifact_name(each) not in self.names)


VerifyStep = Callable[[VerifyScope], Iterator[Remark]]


def read_scope(store: Store, channels: Sequence[str]) -> VerifyScope:
    """What there is to verify, in these channels, or in the whole store where none is named.

    Raises ProfileError for a channel that there is not, and StoreError where the store fails.
    """
    known = _list_known(store)
    views = {each: view_known_channel(store, each) for each in [*channels] or known}
    faults = [Remark(about=name, text=text) for name, view in views.items() for text in view.faults]
    artifacts = {k: v for view in views.values() for k, v in view.artifacts.items()}
    if not channels:
        broken: list[str] = []
        artifacts = {each.sha256: each for each in list_artifacts(store, broken=broken)}
        told = {each.text for each in faults}
        faults += [Remark(about="packages", text=each) for each in broken if each not in told]
        if not (artifacts or faults or views):
            raise ProfileError(f"{store.url}: it has no artifacts and no channels")
    return VerifyScope(
        store=store,
        channels=views,
        artifacts=artifacts,
        # After the documents: what is pushed meanwhile has its bytes before them.
        names={each.name: each.size for each in store.names(PACKAGES)},
        facts=_list_facts(store),
        whole=not channels,
        indexed=frozenset(each for each in views if is_indexed(store, each)),
        faults=tuple(faults),
    )


def _list_known(store: Store) -> list[str]:
    """Every channel that has a member, or an index: one of no member serves a stranger's files."""
    folders = (name for prefix in DERIVED for name in store.folders(prefix))
    indexed = {name.split("/")[1] for name in folders}
    return sorted({*list_channels(store), *(each for each in indexed if is_safe_part(each))})


def _list_facts(store: Store) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in store.names(FACTS):
        digest = each.name.rpartition("/")[2].partition(".")[0]
        found[digest] = (*found.get(digest, ()), each.name)
    return found


def verify(scope: VerifyScope) -> Iterator[Remark]:
    """All that is wrong, or could not be looked at, by everybody who verifies."""
    yield from scope.faults
    for verifier in VERIFIERS:
        try:
            yield from verifier(scope)
        except RecordError as error:
            yield Remark(about=scope.store.url, text=str(error))
        except StoreError as error:
            yield Remark(about=scope.store.url, text=str(error), looked=False)


def verify_files(scope: VerifyScope) -> Iterator[Remark]:
    """Every file, some at a time, each as a stream."""
    workers = min(_AT_ONCE, max(2, os.cpu_count() or 1))
    with ThreadPoolExecutor(workers) as pool:
        ordered = sorted(scope.artifacts.values(), key=lambda each: each.file_name)
        for found in pool.map(lambda each: _verify_file(scope, each), ordered):
            yield from found


def _verify_file(scope: VerifyScope, artifact: Artifact) -> list[Remark]:
    found: list[Remark] = []
    try:
        facts = scope.facts.get(artifact.sha256, ())
        for text in verify_artifact(scope.store, artifact, scope.names, facts):
            found.append(Remark(about=artifact.file_name, text=text))
    except (StoreError, OSError) as error:
        found.append(Remark(about=artifact.file_name, text=str(error), looked=False))
    return found


def verify_indexes(scope: VerifyScope) -> Iterator[Remark]:
    """Every index that there is is the one that would be written of the members."""
    for channel, view in scope.channels.items():
        index = view.derive(channel)
        for fault in index.faults:
            yield Remark(about=channel, text=fault)
        if channel not in scope.indexed:
            continue
        if differing := find_differences(scope.store, index):  # or somebody pushed meanwhile
            index = view_known_channel(scope.store, channel).derive(channel)
            differing = find_differences(scope.store, index)
        for text in _verify_index(scope.store, index, differing):
            yield Remark(about=channel, text=text)


def _verify_index(store: Store, index: DerivedIndex, differing: Sequence[str]) -> Iterator[str]:
    if differing:
        more = f" and {len(differing) - _FEW:,} more" if len(differing) > _FEW else ""
        names = ", ".join(differing[:_FEW])
        hint = "`binary-checks artifact index` writes it"
        yield f"its index does not match its members: {names}{more}; {hint}"
    for name in sorted(index.files.keys() - {*differing}):
        file = index.files[name]
        if hash_object(store, name, most=file.size) != (file.sha256, file.size):
            yield f"{name}: has other bytes than the package that it stands for"


def verify_leftovers(scope: VerifyScope) -> Iterator[Remark]:
    """Nothing lies among the packages that belongs to none of them."""
    if not scope.whole:
        return
    belonging = {name for each in scope.artifacts.values() for name in _list_own(each)}
    for name in sorted(scope.names.keys() - belonging):
        found = _DIGEST.fullmatch(name)
        if found is None:
            yield Remark(about=name, text="no object of a store has such a name")
        elif found[1] in scope.artifacts and not found[2].startswith(_APPENDED):
            yield Remark(about=name, text="it belongs to no artifact")


def _list_own(artifact: Artifact) -> Iterator[str]:
    """The names of all that its document speaks of."""
    yield artifact_name(artifact.sha256)
    yield package_name(artifact.sha256, artifact.file_name)
    yield metadata_name(artifact.sha256, artifact.file_name)
    yield expired_name(artifact.sha256)
    for each in artifact.companions:
        yield companion_name(artifact.sha256, each.sha256, each.path)


def verify_gates(scope: VerifyScope) -> Iterator[Remark]:
    """Every member of a channel with a gate was let in by it, by verdicts that still hold."""
    for channel, view in scope.channels.items():
        for text in verify_promotions(scope.store, channel, view.members, scope.by):
            yield Remark(about=channel, text=text)


def verify_statements(scope: VerifyScope) -> Iterator[Remark]:
    """Every verdict and every record is whole and about its file, whether anything counts it."""
    for name in sorted(scope.names):
        found = _DIGEST.fullmatch(name)
        if found is None or found[1] not in scope.artifacts:
            continue
        about = scope.artifacts[found[1]].file_name
        try:
            if found[2].startswith("verdicts/"):
                open_verdict(scope.store, name, found[1])
            elif found[2].startswith("promotions/"):
                open_promotion(scope.store, name, found[1])
        except RecordError as error:
            yield Remark(about=about, text=str(error))
        except StoreError as error:
            yield Remark(about=about, text=str(error), looked=False)


VERIFIERS: tuple[VerifyStep, ...] = (
    verify_files,
    verify_indexes,
    verify_leftovers,
    verify_statements,
    verify_gates,
)
"""Who verifies what, one after the other."""
