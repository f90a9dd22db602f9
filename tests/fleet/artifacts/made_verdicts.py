"""Runs, verdicts, keys and policies made by hand."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from binary_checks.documents.result import write_results
from binary_checks.fleet.artifacts import Artifact, PackageVerdict, make_verdict
from binary_checks.knowledge.configurations import READERS
from binary_checks.model import (
    Aspect,
    BinaryConfiguration,
    ClaimSource,
    ConfigurationClaim,
    Entry,
    Outcome,
    Problem,
    RunResult,
)
from fixtures.runs import PROFILE, package_result

SHA = "ab" * 32
RECORD = "cd" * 32
ENDED = "2026-11-20T04:00:00+00:00"
MISSING = Problem(path="demo/a.so", sentence="needs libfoo.so.1, which is nowhere")


def entry(family: str, outcome: Outcome = Outcome.PASSED, **said: Any) -> Entry:
    """What a check of that family says."""
    if outcome is Outcome.FAILED:
        said = {"problems": (MISSING,), **said}
    return Entry(**{"check": f"{family}-check", "family": family, "outcome": outcome, **said})


def make_run(
    *entries: Entry,
    sha256: str = SHA,
    file_name: str = "demo-1.0.whl",
    known: Mapping[str, Any] | None = None,
    **said: Any,
) -> RunResult:
    """A run on one package that found this, and of which this is known."""
    about = {"sha256": sha256, "name": "demo", **(known or {})}
    package = package_result(f"dist/{file_name}", *entries, **about)
    failed = any(each.outcome is Outcome.FAILED for each in entries)
    usual = {"exit_code": int(failed), "profile": PROFILE, "ended": ENDED, "places": ("venv",)}
    return RunResult(**{**usual, "packages": (package,), **said})


def make(*entries: Entry, **said: Any) -> PackageVerdict:
    """The verdict of such a run."""
    run = make_run(*entries, **said)
    return make_verdict(run, run.packages[0], RECORD)


def configure(artifact: Artifact) -> BinaryConfiguration:
    """What a run that reads such a file finds it to be, by its bytes and by its name."""
    values = {
        "system": artifact.system,
        "architecture": artifact.architecture,
        "python": artifact.python,
        "accelerator": READERS["accelerator"](artifact.variant) or artifact.variant,
    }
    return BinaryConfiguration(
        **{
            name: Aspect(
                value=value,
                claims=tuple(
                    ConfigurationClaim(value=value, source=source, evidence="demo/a.so")
                    for source in (ClaimSource.BYTES, ClaimSource.NAME)
                ),
            )
            for name, value in values.items()
            if value
        }
    )


def write_run(path: Path, run: RunResult) -> Path:
    """Its document."""
    path.write_text("".join(write_results(run)), encoding="ascii")
    return path


def make_key(folder: Path, name: str = "ci") -> tuple[Path, str]:
    """A private key in a file, and the public one in base64."""
    key = Ed25519PrivateKey.generate()
    path = folder / f"{name}.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    public = key.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(pem)
    return path, base64.b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
