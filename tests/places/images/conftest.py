"""A stand-in for mmdebstrap, that writes a stream which a test makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.places.images import ImageSettings
from fixtures.root_streams import BuildStandIn, Entry, stream


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildStandIn:
    """Let a stand-in for mmdebstrap write a stream and count its calls."""
    programs = tmp_path / "programs"
    programs.mkdir()
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(
        "binary_checks.places.images.debian_roots.shutil.which", lambda name: str(programs / name)
    )
    monkeypatch.setattr(
        "binary_checks.places.images.debian_roots.make_command",
        lambda entry: ("sh", str(programs / "mmdebstrap"), entry.suite),
    )
    monkeypatch.setattr("binary_checks.places.images.debian_roots._make_user", dict)

    def stand_in(*entries: Entry, says: str = "", status: int = 0, before: str = "") -> None:
        (programs / "stream").write_bytes(stream(entries).getvalue())
        (programs / "mmdebstrap").write_text(
            f"echo $1 >> {programs}/calls\n{before}\ncat {programs}/stream\n"
            f"echo '{says}' >&2\nexit {status}\n",
            encoding="utf-8",
        )

    return stand_in


@pytest.fixture
def settings(tmp_path: Path) -> ImageSettings:
    path = tmp_path / "own.toml"
    path.write_text(
        f'[images.ours]\nbase = "bullseye"\nkeyring = "{tmp_path}/keyring.gpg"\n', encoding="utf-8"
    )
    return ImageSettings(file=path, cache=tmp_path / "cache", timeout=20)
