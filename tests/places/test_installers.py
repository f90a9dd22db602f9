"""An installer's complaint is laid at the right door."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places import installers
from binary_checks.places.complaints import blame
from binary_checks.places.installers import (
    find_installer,
    find_uv,
)
from binary_checks.places.pip_command import make_installer_environment
from binary_checks.places.processes import Ended

UV_NO_SOLUTION = """\
Using Python 3.11.7 environment at: venv
  \u00d7 No solution found when resolving dependencies:
  \u2570\u2500\u25b6 Because absent was not found in the package registry and demo==1.0 depends on
      absent, we can conclude that demo==1.0 cannot be used.
"""
UV_GIVEN = UV_NO_SOLUTION.replace("package registry", "provided package locations")
UV_NO_NETWORK = """\
error: Failed to fetch: `https://example.org/simple/absent/`
  Caused by: error sending request for url
  Caused by: dns error: failed to lookup address information
"""
PIP_NO_NETWORK = """\
WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError()': /simple/absent
ERROR: Could not find a version that satisfies the requirement absent (from versions: none)
ERROR: No matching distribution found for absent
"""
PIP_NONE = "\n".join(PIP_NO_NETWORK.splitlines()[1:])
PIP_CONFLICT = "ERROR: Cannot install demo because these package versions have conflicts.\n"


@pytest.mark.parametrize("output", [UV_NO_SOLUTION, PIP_NONE, PIP_CONFLICT])
def test_a_requirement_that_no_index_has_is_the_packages_fault(output: str) -> None:
    line = blame(output, index=True)
    assert "\n" not in line
    assert not line.startswith(("ERROR", "Using", "\u00d7"))


@pytest.mark.parametrize("output", [UV_NO_NETWORK, PIP_NO_NETWORK])
def test_an_index_that_is_not_reached_is_not_the_packages_fault(output: str) -> None:
    with pytest.raises(GatherError, match=r"^the index cannot be reached: "):
        blame(output, index=True)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "error: Failed to fetch: http://x/a/ cause: HTTP status server error (500) for url",
            "the index answers with an error: Failed to fetch: http://x/a/ (HTTP status ",
        ),
        (
            "error: Failed to fetch: http://x/a/ cause: client error cause: Connection refused",
            "the index cannot be reached: Failed to fetch: http://x/a/ (Connection refused)",
        ),
        ("error: failed to copy a.so cause: No space left on device", "the disk is full: "),
        ("ERROR: [Errno 28] No space left on device", "the disk is full: "),
        ("error: failed to create b: Read-only file system", "the disk cannot be written to: "),
        ("error: invalid peer certificate: Expired", "the index is not trusted: "),
        ("error: failed to build x", "installation broke: failed to build x"),
    ],
)
def test_what_broke_is_named(said: str, cause: str) -> None:
    with pytest.raises(GatherError, match=f"^{re.escape(cause)}"):
        blame(said, index=True)


@pytest.mark.parametrize("output", [UV_GIVEN, PIP_NONE])
def test_without_an_index_a_requirement_can_only_be_missing(output: str) -> None:
    with pytest.raises(Unavailable, match="not among the wheels given"):
        blame(output, index=False)


@pytest.mark.parametrize("hint", ["index lookups were disabled", "the network was disabled"])
def test_what_uv_says_of_the_users_files_counts_like_a_setting(hint: str) -> None:
    said = f"{UV_NO_SOLUTION}\nhint: Packages were unavailable because {hint}"
    with pytest.raises(Unavailable, match="not among the wheels given"):
        blame(said, index=True)


@pytest.mark.parametrize("has_pip", [True, False])
@pytest.mark.parametrize(("value", "has_index"), [("1", False), ("true", False), ("0", True)])
def test_pip_has_no_index_where_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_pip: bool, value: str, has_index: bool
) -> None:
    monkeypatch.setattr(installers, "find_uv", lambda: None)
    monkeypatch.setattr(installers, "run_process", lambda command, **_: Ended(status=0))
    if not has_pip:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PIP_NO_INDEX", value)
    assert find_installer(Path("python"), cwd=tmp_path, timeout=1).has_index is has_index


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("URL dependencies must be expressed as direct requirements or constraints.", "by URL"),
        ("Building source distributions for `evil` is disabled", "has no wheel"),
        ("because building from source is disabled for all packages", "has no wheel"),
    ],
)
def test_where_uv_breaks_its_lines_does_not_matter(said: str, sentence: str, width: int) -> None:
    text = f"  cause: Because of this and that and `evil`. {said} More is said, too."
    output = "\n    \u2502 ".join(textwrap.wrap(text, width))
    with pytest.raises(Unavailable, match=sentence):
        blame(output, index=True)


@pytest.mark.parametrize(
    "hint",
    [
        "could not be queried due to a lack of valid authentication credentials (401 Unauthorized)",
        "returned a 403 Forbidden error. Check that the credentials are valid.",
    ],
)
def test_an_index_that_wants_credentials_is_not_the_packages_fault(hint: str) -> None:
    said = f"{UV_NO_SOLUTION}\nhint: An index URL (http://index.example/simple/) {hint}"
    with pytest.raises(GatherError, match="the index wants credentials: "):
        blame(said, index=True)


def test_a_requirement_that_was_cut_off_is_not_the_packages_fault() -> None:
    said = "Because needed==1.0 has an invalid package format and only needed==1.0 is available"
    with pytest.raises(GatherError, match=r"the index sent a broken file, or half of one: needed"):
        blame(f"error: No solution found\n  Caused by: {said}", index=True)
    own = "error: No solution found\n  Caused by: Because demo has an invalid package format"
    assert "demo has an invalid package format" in blame(own, index=True)


def test_a_full_disk_is_not_the_packages_fault() -> None:
    with pytest.raises(GatherError, match="No space left"):
        blame("error: failed to copy\n  Caused by: No space left on device", index=True)


def test_a_silent_failure_still_has_a_line() -> None:
    assert blame("", index=True) == "the installer failed without a message"


def test_installers_see_the_users_settings_but_no_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD", "HTTPS_PROXY", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "x")
    kept = make_installer_environment()
    assert {"HTTPS_PROXY", "PIP_INDEX_URL"} <= kept.keys()
    assert kept.keys().isdisjoint({"PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD"})


def test_without_uv_and_pip_the_interpreters_own_pip_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def run_process(command: tuple[object, ...], **_: object) -> Ended:
        commands.append(" ".join(map(str, command)))
        return Ended(status=0, stdout="pip 24.0 from somewhere")

    monkeypatch.setattr(installers, "find_uv", lambda: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(installers, "run_process", run_process)
    found = find_installer(Path("python"), cwd=tmp_path, timeout=1)
    assert (found.name, found.command[:2]) == ("pip 24.0", ("python", "-I"))
    assert "ensurepip" in commands[0]


def test_an_interpreter_without_ensurepip_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installers, "find_uv", lambda: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(installers, "run_process", lambda command, **_: Ended(status=1))
    with pytest.raises(GatherError, match="neither uv nor a pip that runs on python"):
        find_installer(Path("python"), cwd=tmp_path, timeout=1)


def test_uv_is_found_on_path_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/tools/{name}")
    assert find_uv() == "/tools/uv"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "uv", None)
    assert find_uv() is None
