"""Holds the fields of artifact.json that a gate reads, which nobody signs, to verdicts and bytes.

A signed verdict states which build its file is. What none of them states is derived again from the
bytes, as it was when the file was pushed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Lock

from binary_checks.documents.decoding import OddityError
from binary_checks.errors import (
    ArtifactRefusedError,
    BrokenDataError,
    PackageError,
    ProfileError,
    RecordError,
)
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.commits import StatedCommit
from binary_checks.fleet.artifacts.deriving import StatedArtifact, derive
from binary_checks.fleet.artifacts.gating import GateRefusal, KeptVerdict
from binary_checks.fleet.artifacts.hashed_files import hash_file, hash_pieces
from binary_checks.fleet.artifacts.inspected_files import inspect_file
from binary_checks.fleet.artifacts.package_texts import read_texts
from binary_checks.fleet.artifacts.statements import read_time
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import package_name

_STORED = "artifact.json"
_TURN = Lock()
"""Of the files that are fetched for this, one at a time lies on the disk and is inspected."""
_TAMPERED = "somebody tampered with the store"


def find_unproven(
    store: Store, artifact: Artifact, believed: Sequence[KeptVerdict], names: Collection[str]
) -> GateRefusal | None:
    """Return why one of these fields of artifact.json cannot be believed, or None.

    ``believed`` are the verdicts that the gate believes. Raises StoreError where the store fails,
    and GatherError where the bytes cannot be inspected here.
    """
    stated = {name: _choose(name, believed) for name in sorted(names)}
    unproven = [name for name in stated if stated[name] != {getattr(artifact, name)}]
    for name in unproven:
        if values := stated[name] - {""}:
            return _contradict(name, getattr(artifact, name), values)
    if not unproven:
        return None
    try:
        derived = _derive_again(store, artifact)
    except (RecordError, PackageError, BrokenDataError, OddityError) as error:
        return GateRefusal(what="", why=str(error), advice=_TAMPERED)
    except (ArtifactRefusedError, ProfileError) as error:
        return GateRefusal(what="", why=str(error), advice="push another build")
    for name in unproven:
        value, found = getattr(artifact, name), getattr(derived, name)
        if value != found:
            return _refuse_unsigned(name, value, found)
    return None


def _choose(name: str, kept: Iterable[KeptVerdict]) -> set[str]:
    """Return what the newest verdicts state of a field; a value that was set by hand comes first.

    There are several values where verdicts of the same time contradict each other, and there is
    none where no verdict states any.
    """
    found: dict[tuple[bool, datetime], set[str]] = {}
    for each in kept:
        for said in each.verdict.stated:
            if said.name == name:
                rank = said.by_hand, read_time(each.verdict.ended)
                found.setdefault(rank, set()).add(said.value)
    newest = found[max(found)] if found else set[str]()
    return newest - {""} or newest


def _contradict(name: str, value: str, stated: Collection[str]) -> GateRefusal:
    if len(stated) > 1:
        why = f"verdicts of the same time state {name} {' and '.join(sorted(stated))}"
        return GateRefusal(what="", why=why, advice="judge it again, and attest one of them")
    (signed,) = stated
    why = f"{_STORED} says {_spell(name, value)}, and its verdict states {name} {signed}"
    advice = f"if it is {name} {value}, `artifact attest RESULT --set {name}={value}` states that"
    return GateRefusal(what="", why=why, advice=advice if value else _TAMPERED)


def _refuse_unsigned(name: str, value: str, found: str) -> GateRefusal:
    said = f"{_STORED} says {_spell(name, value)}"
    if found:
        return GateRefusal(what="", why=f"{said}, and its bytes {name} {found}", advice=_TAMPERED)
    why = f"{said}, which neither its bytes nor a verdict state"
    advice = f"if that is right, `artifact attest RESULT --set {name}={value}` states it"
    return GateRefusal(what="", why=why, advice=advice)


def _spell(name: str, value: str) -> str:
    return f"{name} {value}" if value else f"no {name}"


def _derive_again(store: Store, artifact: Artifact) -> Artifact:
    """Return what the bytes in the store and their file name say, and nothing that was stated."""
    name = package_name(artifact.sha256, artifact.file_name)
    with _TURN, tempfile.TemporaryDirectory(prefix="gate-") as folder:
        path = Path(folder) / artifact.file_name
        with path.open("xb") as file:
            if hash_pieces(store.pieces(name), file, artifact.size) != artifact.sha256:
                raise RecordError(f"{store.url}: {name}: other bytes than its name promises")
        with inspect_file(path) as inspected:
            statement = inspected.statement
            texts = read_texts(path, statement.package)
            stated = StatedArtifact(project="" if statement.package.name else artifact.project)
            derived = derive(hash_file(path), statement, texts, StatedCommit("", ""), stated)
            return derived if statement.package.name else replace(derived, project="")
