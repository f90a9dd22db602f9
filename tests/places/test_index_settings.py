"""The user's settings for pip hold for uv too, and those for uv win."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from packaging.tags import parse_tag

from binary_checks.places.index_settings import (
    parse_pip_settings,
    read_pip_settings,
    translate_for_uv,
    translate_variables_for_uv,
)
from binary_checks.places.installers import describe_given, pin_versions

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
