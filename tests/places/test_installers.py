"""An installer's complaint is laid at the right door."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from packaging.tags import parse_tag

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places import installers
from binary_checks.places.index_settings import (
    make_installer_environment,
    parse_pip_settings,
    read_pip_settings,
    translate_for_uv,
    translate_variables_for_uv,
)
from binary_checks.places.installers import (
    attribute_failure,
    describe_given,
    find_fault,
    find_installer,
    find_uv,
    pin_versions,
)
from binary_checks.places.processes import ProcessResult

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
    line = attribute_failure(output, index=True)
    assert "\n" not in line
    assert not line.startswith(("ERROR", "Using", "\u00d7"))


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "error: Failed to fetch: http://x/a/\n"
            "  cause: HTTP status server error (500) for url (http://x/a/)",
            "the index answers with an error: Failed to fetch: http://x/a/ (HTTP status ",
        ),
        (
            "  \u00d7 Failed to fetch: `http://x/a/`\n  \u251c\u2500\u25b6 client error (Connect)\n"
            "  \u2570\u2500\u25b6 Connection refused (os\n      error 111)",
            "the index cannot be reached: Failed to fetch: `http://x/a/` (Connection refused (os ",
        ),
        (
            "error: Failed to extract archive\n  Caused by: failed to write to file `a.so`: "
            "No space left on device (os error 28)",
            "the disk is full: Failed to extract archive (failed to write to file `a.so`: No ",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left",
            "the disk is full: [Errno 28] No space left",
        ),
        (
            "ERROR: Exception:\nTraceback (most recent call last):\n  File ...\n"
            "PermissionError: [Errno 13] Permission denied: '/x'",
            "the disk cannot be written to: PermissionError: [Errno 13] ",
        ),
        ("error: failed to create b: no (os error 30)", "the disk cannot be written to: "),
        ("error: invalid peer certificate: Expired", "the index is not trusted: "),
        ("error: failed to build x", "installation broke: failed to build x"),
        (UV_NO_NETWORK, "the index cannot be reached: "),
        (PIP_NO_NETWORK, "the index cannot be reached: "),
        (
            f"{UV_NO_SOLUTION}\nhint: An index URL (http://index.example/simple/) could not be "
            "queried due to a lack of valid authentication credentials (401 Unauthorized)",
            "the index wants credentials: ",
        ),
        (
            f"{UV_NO_SOLUTION}\nhint: An index URL (http://index.example/simple/) returned a "
            "403 Forbidden error. Check that the credentials are valid.",
            "the index wants credentials: ",
        ),
    ],
)
def test_what_broke_is_named(said: str, cause: str) -> None:
    with pytest.raises(GatherError, match=f"^{re.escape(cause)}"):
        attribute_failure(said, index=True)


@pytest.mark.parametrize("output", [UV_GIVEN, PIP_NONE])
def test_without_an_index_a_requirement_can_only_be_missing(output: str) -> None:
    with pytest.raises(Unavailable, match="not among the wheels given"):
        attribute_failure(output, index=False)


@pytest.mark.parametrize("hint", ["index lookups were disabled", "the network was disabled"])
def test_what_uv_says_of_the_users_files_counts_like_a_setting(hint: str) -> None:
    said = f"{UV_NO_SOLUTION}\nhint: Packages were unavailable because {hint}"
    with pytest.raises(Unavailable, match="not among the wheels given"):
        attribute_failure(said, index=True)


@pytest.mark.parametrize("has_pip", [True, False])
@pytest.mark.parametrize(("value", "has_index"), [("1", False), ("true", False), ("0", True)])
def test_pip_has_no_index_where_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_pip: bool, value: str, has_index: bool
) -> None:
    monkeypatch.setattr(installers, "find_uv", lambda: None)
    monkeypatch.setattr(installers, "run_process", lambda command, **_: ProcessResult(status=0))
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
        attribute_failure(output, index=True)


@pytest.mark.parametrize(
    "said",
    [
        UV_NO_SOLUTION.replace("absent", "certificate"),
        UV_NO_SOLUTION.replace("absent", "sslerror"),
        PIP_NONE.replace("absent", "certificate-timed-out"),
        PIP_CONFLICT.replace("demo", "failed-to-fetch==1.0+permission.denied"),
        "ERROR: Could not install packages due to an OSError: [Errno 36] File name too long: 'x'",
        "error: Failed to extract archive\n  cause: failed to create `x`: long (os error 36)",
        "error: Failed to read `demo @ file:///demo.whl`\n  cause: Failed to read from zip file",
        "ERROR: Wheel 'demo' located at /dist/demo-1.0-py3-none-any.whl is invalid.",
    ],
)
def test_what_a_package_is_called_or_has_is_no_fault_of_an_index(said: str) -> None:
    log = "2026-11-21T03:12:45,101 Could not fetch URL http://x/: 404 Client Error: No - skipping"
    assert attribute_failure(said, index=True, log=log)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "Could not fetch URL http://x/simple/a/: HTTPConnectionPool(host='x', port=80): Max "
            "retries exceeded with url: /simple/a/ (Caused by ResponseError('too many 503 error "
            "responses')) - skipping",
            "the index answers with an error: http://x/simple/a/: ResponseError('too many 503 err",
        ),
        (
            "Could not fetch URL http://x/a/: 403 Client Error: No for url: http://x/a/ - skipping",
            "the index wants credentials: http://x/a/: 403 Client Error: No",
        ),
        (
            "WARNING: Skipping page http://x/a/ because the GET request got Content-Type: "
            "text/css. The only supported Content-Types are text/html",
            "the index cannot be reached: http://x/a/: sends text/css instead of a list of files",
        ),
    ],
)
def test_the_log_of_pip_states_what_the_index_answered(line: str, cause: str) -> None:
    with pytest.raises(GatherError, match=f"^{re.escape(cause)}"):
        attribute_failure(PIP_NONE, index=True, log=f"2026-11-21T03:12:45,101 {line}\n")


OF_PYTORCH = "https://download.pytorch.org/whl/cpu/absent/"


@pytest.mark.parametrize(
    "line",
    [
        "  Could not fetch URL http://x/a/: 503 Server Error - skipping",  # a build prints it
        # It answers so what it lacks, as uv knows of it too.
        f"Could not fetch URL {OF_PYTORCH}: 403 Client Error: No for url: {OF_PYTORCH} - skipping",
    ],
)
def test_a_line_of_the_log_may_be_no_fault_of_an_index(line: str) -> None:
    assert attribute_failure(PIP_NONE, index=True, log=f"2026-11-21T03:12:45,101 {line}\n")


def test_a_silent_failure_still_has_a_line() -> None:
    assert attribute_failure("", index=True) == "the installer failed without a message"


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

    def run_process(command: tuple[object, ...], **_: object) -> ProcessResult:
        commands.append(" ".join(map(str, command)))
        return ProcessResult(status=0, stdout="pip 24.0 from somewhere")

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
    monkeypatch.setattr(installers, "run_process", lambda command, **_: ProcessResult(status=1))
    with pytest.raises(GatherError, match="neither uv nor a pip that runs on python"):
        find_installer(Path("python"), cwd=tmp_path, timeout=1)


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
def test_uv_is_found_on_path_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/tools/{name}")
    assert find_uv() == "/tools/uv"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "uv", None)
    assert find_uv() is None


def test_a_wheel_without_record_is_no_fault_of_an_index() -> None:
    assert find_fault("ERROR: Could not install packages due to an OSError: RECORD\n") == ""


# The user's settings for pip hold for uv too, and those for uv win.


LISTING = """\
global.index-url='https://example.org/simple'
global.find-links='/a/wheels\\n/b/wheels'
install.index-url='https://install.example.org/simple'
:env:.cert='/etc/cert.pem'
download.index-url='https://other.example.org'
"""


def test_the_nearest_section_wins() -> None:
    assert parse_pip_settings(LISTING) == {
        "index-url": "https://install.example.org/simple",
        "find-links": "/a/wheels\n/b/wheels",
        "cert": "/etc/cert.pem",
    }


@pytest.mark.skipif(os.name != "posix", reason="paths of POSIX")
def test_settings_are_said_in_the_words_of_uv() -> None:
    settings = {
        **parse_pip_settings(LISTING),
        "extra-index-url": "https://one.example.org https://two.example.org",
        "trusted-host": "one.example.org",
        "no-index": "true",
    }
    assert " ".join(translate_for_uv(settings, {})) == (
        "--no-index --default-index https://install.example.org/simple"
        " --index https://one.example.org --index https://two.example.org"
        " --find-links /a/wheels --find-links /b/wheels --allow-insecure-host one.example.org"
        " --index-strategy unsafe-best-match"
    )
    assert translate_variables_for_uv(settings, {}) == {"SSL_CERT_FILE": "/etc/cert.pem"}


def test_settings_for_uv_win() -> None:
    settings = parse_pip_settings(LISTING)
    assert translate_for_uv(settings, {"UV_INDEX": "https://mine.example.org"}) == ()
    assert translate_variables_for_uv(settings, {"SSL_CERT_FILE": "/mine"}) == {}


@pytest.mark.parametrize(("value", "options"), [("1", ("--no-index",)), ("false", ())])
def test_uv_is_told_to_leave_indexes_alone_where_its_variable_says_so(
    value: str, options: tuple[str, ...]
) -> None:
    assert translate_for_uv({}, {"UV_NO_INDEX": value}) == options


@pytest.mark.parametrize("has_pip", [True, False])
def test_variables_are_settings(has_pip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_pip:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    elif importlib.util.find_spec("pip") is None:
        pytest.skip("no pip here")
    environ = {"PIP_INDEX_URL": "https://example.org/simple"}
    assert read_pip_settings(environ)["index-url"] == "https://example.org/simple"


def test_a_folder_with_one_version_of_a_project_decides_it() -> None:
    files = (
        "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
        "torch-2.12.0-cp312-cp312-linux_x86_64.whl",
        "two-1.0-py3-none-any.whl",
        "two-1.1-py3-none-any.whl",
        "no wheel at all.whl",
    )
    tags = parse_tag("cp311-cp311-linux_x86_64") | parse_tag("py3-none-any")
    assert list(pin_versions(files, tags)) == ["torch==2.13.0+cpu"]


def test_given_wheels_are_requirements_and_folders_are_links(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "wheels"
    folder.mkdir()
    wheel = folder / "one-1.0-py3-none-any.whl"
    wheel.touch()
    constraints = tmp_path / "constraints.txt"
    options = describe_given((wheel, folder), parse_tag("py3-none-any"), constraints)
    expected = (str(wheel), "--find-links", str(folder), "--constraint", str(constraints))
    assert options == expected
    assert constraints.read_text() == "one==1.0\n"
