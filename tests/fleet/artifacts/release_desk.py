"""A release engineer's working place: a store with artifacts in the channel test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from binary_checks.command.actions import ARTIFACT
from binary_checks.fleet.artifacts import (
    Artifact,
    join_channel,
    keep_artifact,
    keep_push,
    list_members,
    load_signing_key,
)
from binary_checks.fleet.store import Store
from binary_checks.model import Entry, Outcome
from tests.fleet.artifacts.made_artifacts import make_artifact
from tests.fleet.artifacts.made_verdicts import configure, entry, make_key, make_run, write_run

GATE = '[channels.release]\nfrom = ["test"]\nfamilies = ["linkage"]\n'
GOOD, BAD = (entry("linkage"),), (entry("linkage", Outcome.FAILED),)


@dataclass
class Desk:
    """A store with artifacts in the channel test, and what a release engineer has."""

    folder: Path
    store: Store
    capsys: pytest.CaptureFixture[str]

    def push(self, version: str, *entries: Entry, name: str = "", **said: Any) -> Artifact:
        name = name or f"demo-{version}-cp312-cp312-manylinux_2_28_x86_64.whl"
        artifact, incoming = make_artifact(self.folder, version.encode(), name, **said)
        keep_artifact(self.store, artifact, incoming)
        join_channel(self.store, "test", artifact)
        if entries:
            assert self.attest(self.result(artifact, *entries)) == 0
        return artifact

    def sign_push(self, artifact: Artifact, *keys: object) -> None:
        """What `artifact push --key` adds."""
        keep_push(self.store, artifact, [load_signing_key(str(each)) for each in keys])

    def signed_policy(self, name: str = "ci", more: str = "") -> tuple[Path, str]:
        """A new key, and a policy that lists it and adds these lines to its gate."""
        key, public = make_key(self.folder, name)
        return key, f'[[keys]]\nname = "{name}"\npublic = "{public}"\n{GATE}{more}'

    def result(self, artifact: Artifact, *entries: Entry, **said: Any) -> Path:
        known = {"version": artifact.version, "configuration": configure(artifact)}
        about = {"sha256": artifact.sha256, "file_name": artifact.file_name, "known": known}
        said = {**about, **said}
        made = make_run(*entries, **said)
        return write_run(self.folder / f"{artifact.sha256}.json", made)

    def do(self, *arguments: object) -> tuple[int, str, str]:
        status = ARTIFACT.run([str(each) for each in arguments] + ["--store", self.store.url])
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def attest(self, *arguments: object) -> int:
        return self.do("attest", *arguments)[0]

    def promote(self, *arguments: object, policy: str = GATE) -> tuple[int, str, str]:
        (self.folder / "policy.toml").write_text(policy, encoding="utf-8")
        channels = ("--from", "test", "--to", "release", "--policy", self.folder / "policy.toml")
        return self.do("promote", *arguments, *channels)

    def released(self) -> list[str]:
        return [each.file_name for each in list_members(self.store, "release")]

    def names(self, prefix: str = "") -> list[str]:
        return [each.name for each in self.store.names(prefix)]
