"""Prepare files for an index: without local versions, and judged by the index's own rules.

The rules are a profile, and `binary-checks` judges all files of a release by it in a process.
Files that the channel already has are represented by their METADATA, which the store has apart.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from binary_checks.documents.result import read_results
from binary_checks.errors import (
    ArtifactRefusedError,
    GatherError,
    ProfileError,
    RecordError,
    StoreError,
)
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channels import ChannelMember
from binary_checks.fleet.artifacts.gating import Gate
from binary_checks.fleet.artifacts.kept_artifacts import (
    HashedFile,
    Incoming,
    fetch_object,
    find_artifact,
    hash_file,
    keep_artifact,
    list_artifacts,
)
from binary_checks.fleet.artifacts.limited_process import run_limited
from binary_checks.fleet.artifacts.relabelling import (
    describe_relabelled,
    fetch_file,
    has_label,
    list_origins,
    read_metadata,
    relabel_wheel,
)
from binary_checks.fleet.store import Store, companion_name, metadata_name
from binary_checks.model import GOOD_OUTCOMES, Outcome, PackageResult, RunResult
from binary_checks.safe_text import cut, one_line

FAMILIES = ("upload", "metadata", "release")
"""The families by which files are judged: what an index refuses, and what it takes for granted."""
_REQUIRED = ("upload", "metadata")
"""The families that must be able to inspect a file: an index inspects everything."""
_EACH, _FIRST = 600.0, 600.0  # seconds for each file, and for the process
_LARGEST_METADATA = 16 << 20  # bytes
_USAGE, _TRY_AGAIN = 4, 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """A file that is to enter a channel, and the stored artifact that it is made of."""

    origin: Artifact
    artifact: Artifact  # the origin itself if nothing was removed
    path: Path  # of the file, if it was fetched
    refusals: tuple[str, ...] = ()  # why an index would refuse it


class UploadFolder:
    """An empty folder of this host for the files of one promotion."""

    def __init__(self, store: Store, gate: Gate, folder: Path) -> None:
        self._store, self._gate, self._folder = store, gate, folder

    def prepare(
        self, artifacts: Iterable[Artifact], members: Sequence[ChannelMember], rules: str
    ) -> dict[str, Upload]:
        """Fetch the artifacts, remove local versions, and judge them together; key is the SHA-256.

        ``rules`` is the name or the path of the profile, or "". Raises StoreError, ProfileError and
        GatherError if the store, the rules or the process failed.
        """
        uploads: dict[str, Upload] = {}
        for artifact in artifacts:
            try:
                made = self._make(artifact, judged=bool(rules))
            except ArtifactRefusedError as error:
                made = Upload(
                    origin=artifact, artifact=artifact, path=Path(), refusals=(str(error),)
                )
            uploads[artifact.sha256] = made
        sound = [each for each in uploads.values() if not each.refusals]
        if rules and sound:
            stubs = self._write_stubs(sound, members)
            uploads |= {each.origin.sha256: each for each in self._judge(sound, stubs, rules)}
        return uploads

    def _make(self, artifact: Artifact, *, judged: bool) -> Upload:
        if judged and artifact.kind != "wheel":
            raise ArtifactRefusedError(f"{artifact.file_name}: the index has only wheels")
        folder = self._folder / artifact.sha256
        folder.mkdir()
        relabelled = self._gate.relabel and has_label(artifact)
        path = fetch_file(self._store, artifact, folder) if judged or relabelled else Path()
        if not relabelled:
            return Upload(origin=artifact, artifact=artifact, path=path)
        made = relabel_wheel(path, folder)
        path.unlink()
        return Upload(origin=artifact, artifact=describe_relabelled(artifact, made), path=made)

    def _write_stubs(
        self, uploads: Iterable[Upload], members: Sequence[ChannelMember]
    ) -> list[Path]:
        """Write a wheel with only METADATA for each file of these releases in the channel."""
        wanted = {(each.artifact.project, each.artifact.version) for each in uploads}
        own = {each.artifact.file_name for each in uploads}
        digests = [each.sha256 for each in members if each.file_name.endswith(".whl")]
        found = []
        for artifact in list_artifacts(self._store, dict.fromkeys(digests)):
            if (artifact.project, artifact.version) not in wanted or artifact.file_name in own:
                continue
            name = metadata_name(artifact.sha256, artifact.file_name)
            content = self._store.read(name, _LARGEST_METADATA)
            if content is None:
                raise RecordError(f"{self._store.url}: {name}: missing")
            folder = self._folder / artifact.sha256
            folder.mkdir(exist_ok=True)
            path = folder / artifact.file_name
            stem = "-".join(artifact.file_name.split("-")[:2])
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"{stem}.dist-info/METADATA", content)
            found.append(path)
        return found

    def _judge(
        self, uploads: Sequence[Upload], stubs: Sequence[Path], rules: str
    ) -> Iterator[Upload]:
        run = judge_files([each.path for each in uploads], stubs, rules, self._folder)
        by_name = {each.file_name: each for each in run.packages}
        together = [
            line for each in run.packages if each.parts for line in _list_problems(each, "release")
        ]
        for each in uploads:
            own = _list_problems(by_name.get(each.path.name), each.path.name)
            yield replace(each, refusals=(*own, *together))

    def keep(self, upload: Upload) -> None:
        """Store a relabelled file with what belongs to it.

        Raises StoreError, ArtifactRefusedError.
        """
        with zipfile.ZipFile(upload.path) as archive:
            metadata = read_metadata(archive)
        companions = dict(self._fetch_companions(upload.origin))
        incoming = Incoming(file=hash_file(upload.path), companions=companions, metadata=metadata)
        made = upload.artifact
        keep_artifact(self._store, made, incoming)
        if find_artifact(self._store, made.sha256) != made:
            message = f"{self._store.url} has another artifact.json for the same bytes"
            raise ArtifactRefusedError(f"{made.file_name}: {message}")

    def _fetch_companions(self, origin: Artifact) -> Iterator[tuple[str, HashedFile]]:
        for number, each in enumerate(origin.companions):
            path = self._folder / origin.sha256 / f"companion{number}"
            name = companion_name(origin.sha256, each.sha256, each.path)
            with path.open("wb") as file:
                fetch_object(self._store, name, each.sha256, each.size, file)
            yield each.path, hash_file(path)


def judge_files(
    paths: Sequence[Path], stubs: Sequence[Path], rules: str, folder: Path
) -> RunResult:
    """Judge files by a profile, and compare them with those of which only METADATA is there.

    Raises ProfileError for rules that cannot be followed, GatherError if the run failed.
    """
    document = folder / "result.json"
    end = run_limited(
        (
            *("--static", "--profile", rules, "-m", " or ".join(FAMILIES)),
            *(word for family in _REQUIRED for word in ("--require", family)),
            *("--report", f"json:{document}"),
            *map(str, (*paths, *stubs)),
        ),
        folder / "output",
        _FIRST + _EACH * len(paths),
        "upload rules",
    )
    told = cut(one_line(end.complaint or f"it ended with {end.status}"))
    if end.status == _USAGE:
        raise ProfileError(f"upload rules: {told}")
    if end.status not in (0, 1) or not document.is_file():
        kind = StoreError if end.status == _TRY_AGAIN else GatherError
        raise kind(f"upload rules: the files could not be judged: {told}")
    return read_results(document, "upload rules")


def _list_problems(package: PackageResult | None, named: str) -> Iterator[str]:
    """Yield a line for each reason to refuse a package."""
    if package is None:
        yield f"{named}: it was not judged"
        return
    failed = [each for each in package.entries if each.outcome is Outcome.FAILED]
    for entry in failed:
        errors = [each for each in entry.problems if each.level.value == "error"]
        for each in errors:
            about = f"{each.path}: " if entry.family == "release" and each.path else ""
            yield f"{entry.check}: {about}{each.sentence}"
        if not errors:
            yield f"{entry.check}: {entry.reason or 'not inspected'}"
    if not failed and package.verdict not in GOOD_OUTCOMES:
        yield package.stopped or f"its verdict is {package.verdict.value}"


def find_relabelled(
    store: Store, members: Iterable[ChannelMember], projects: Iterable[str]
) -> frozenset[str]:
    """Return the SHA-256 of the files of which members of a channel are made."""
    wanted = {canonicalize_name(each) for each in projects}
    return frozenset(
        origin
        for each in members
        if canonicalize_name(each.project) in wanted
        for origin in list_origins(store, each.sha256)
    )
