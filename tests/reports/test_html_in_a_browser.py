"""The page as Chromium shows it: from a file, without a network, inert, and for everybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.browser import Page
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.samples import FOLDER
from tests.shown_pages import HOSTILE, demand_accessible, page

pytestmark = pytest.mark.browser
__all__ = ["page"]  # a fixture


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run over samples and a hostile package."""
    folder = tmp_path_factory.mktemp("page")
    object_file = build_elf(needed=(f"lib{HOSTILE}.so", "libc.so.6"), runpath=HOSTILE)
    hostile = build_wheel(
        folder,
        members={
            f"demo/{HOSTILE.replace('/', '_')}.so": object_file,
            "demo/a\nb.so": object_file,
            f"demo/{HOSTILE.replace('/', '_')}.py": b"1",
        },
        metadata=f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nSummary: {HOSTILE}\n",
    )
    command = [sys.executable, "-m", "binary_checks", "--binary-static"]
    options = ["--binary-report", f"html:{folder / 'page.html'}"]
    wheels = sorted((FOLDER / "wheels").glob("demo*.whl"))
    subprocess.run([*command, *options, *wheels, hostile], check=False, capture_output=True)
    return folder / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_axe_finds_nothing(page: Page, page_file: Path, scheme: str, width: int) -> None:
    demand_accessible(page, page_file.as_uri(), scheme, width)


def test_it_opens_from_a_file_and_asks_for_nothing_else(page: Page, page_file: Path) -> None:
    page.open(page_file.as_uri(), scheme="light", width=1280)
    assert page.requested() == [page_file.as_uri()]
    assert "Log.entryAdded" not in page.happened()  # nothing was blocked, for nothing was tried
    assert page.evaluate("getComputedStyle(document.body).margin") == "0px"  # its style counts


def test_hostile_names_are_shown_and_do_nothing(page: Page, page_file: Path) -> None:
    page.open(page_file.as_uri(), scheme="light", width=1280)
    assert "Page.javascriptDialogOpening" not in page.happened()
    assert (
        page.evaluate("document.querySelectorAll('script, img, iframe, object, link').length") == 0
    )
    handlers = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
    assert page.evaluate(f"{handlers}.filter(a => a.name.startsWith('on')).length") == 0
    text = page.evaluate("document.body.textContent")
    assert "<script>alert(2)</script>" in text
    assert "\u202e" not in text


def test_nothing_is_wider_than_a_narrow_window(page: Page, page_file: Path) -> None:
    page.open(page_file.as_uri(), scheme="light", width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize(("scheme", "lighter"), [("light", True), ("dark", False)])
def test_it_is_as_light_or_dark_as_its_reader_likes(
    page: Page, page_file: Path, scheme: str, lighter: bool
) -> None:
    page.open(page_file.as_uri(), scheme=scheme, width=1280)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(colour.removeprefix("rgb(").split(",")[0])
    assert (red > 128) is lighter
