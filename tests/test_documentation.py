"""What the documents show is true: profiles are valid, code runs, lists are whole."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

import binary_checks
from binary_checks import check, model
from binary_checks.declaring import find_checks
from binary_checks.model import REQUESTS
from binary_checks.profile import KnownProblem
from binary_checks.reports.explanation import DOCUMENTATION, find_page
from fixtures.documentation import find_stale
from fixtures.values import wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
KEYS = (
    *("extends", "checks", "enable", "disable", "objects", "timeout"),
    *("system_libraries", "dll_directories"),
)


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a document that are in that language."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_lists_are_what_is_declared() -> None:
    assert find_stale() == [], "run `nox -s docs`"


def find_pages() -> Iterator[Path]:
    """Yield every page of Markdown that is meant for readers."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    yield from (ROOT / "docs").rglob("*.md")


@cache
def find_anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes from the page's headings."""
    prose = re.sub(r"^(```+).*?^\1$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*find_pages()], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_an_anchor(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text("utf-8"))
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in find_anchors(target), f"{path}#{anchor}"


def test_every_check_has_an_anchor_on_the_page_that_reports_name() -> None:
    for each in find_checks():
        page, _, anchor = find_page(each.id).removeprefix(f"{DOCUMENTATION}/").partition("#")
        assert anchor == each.id
        assert anchor in find_anchors(ROOT / "docs" / page.replace(".html", ".md"))
    assert "unreadable-package" in find_anchors(ROOT / "docs" / "checks.md")


def test_the_index_of_the_site_lists_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text("utf-8")
    listed = set(re.findall(r"^- \[.+?\]\((.+?)\)", index, re.MULTILINE))
    pages = {path.relative_to(docs).as_posix() for path in docs.glob("**/*.md")}
    others = {page for page in pages if page.startswith(("checks/", "examples/"))} | {"index.md"}
    assert listed == pages - others


def test_the_metadata_names_the_site_that_reports_name_and_its_links_are_absolute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its readme is what hatchling makes of it when it builds, without hatchling."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["project"]["urls"]["Documentation"] == DOCUMENTATION
    assert settings["tool"]["hatch"]["metadata"]["hooks"]["custom"]["site"] == DOCUMENTATION
    interface = types.ModuleType("interface")
    hook = type("Hook", (), {"root": ROOT, "config": {"site": DOCUMENTATION}})
    vars(interface)["MetadataHookInterface"] = hook
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    metadata: dict[str, Any] = {}
    run_path(str(ROOT / "hatch_build.py"))["DescriptionHook"]().update(metadata)
    links = re.findall(r"\]\(([^)]+)\)", metadata["readme"]["text"])
    assert all(link.startswith("https://") for link in links)
    ours = {link.removeprefix(f"{DOCUMENTATION}/") for link in links if DOCUMENTATION in link}
    pages = {path.partition(".html")[0] for path in ours - {"failing-run.svg"}}
    assert {name for name in pages if not (ROOT / f"docs/{name}.md").is_file()} == set()
    assert {"profile", "contributing", "changelog"} <= pages


def profiles() -> list[dict[str, Any]]:
    readme = (tomllib.loads(block) for block in blocks("README.md", "toml"))
    own = [
        table["tool"]["binary_checks"]
        for table in readme
        if "binary_checks" in table.get("tool", {})
    ]
    pages = ("docs/profile.md", "docs/torch.md")
    return [*own, *(tomllib.loads(block) for page in pages for block in blocks(page, "toml"))]


@pytest.mark.parametrize("shown", profiles(), ids=str)
def test_a_profile_that_is_shown_is_valid(shown: dict[str, Any]) -> None:
    ids = {each.id: each for each in find_checks()}
    for known in shown.get("known_problems", ()):
        assert known.keys() <= set(KnownProblem.__dataclass_fields__)
        assert known["check"] in ids
    for name, options in shown.get("options", {}).items():
        assert options.keys() <= ids[name].options.keys()
    requests = {kind.table: kind for kind in REQUESTS}
    for name, table in shown.get("probes", {}).items():
        assert table.keys() <= {field.name for field in fields(requests[name])}
    assert set(shown.get("enable", ())) <= ids.keys()
    assert shown.keys() <= {*KEYS, "options", "probes", "levels", "known_problems"}


def test_every_key_of_a_profile_and_its_probes_is_documented() -> None:
    text = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")
    known = [field.name for field in fields(KnownProblem) if field.compare]
    for key in (*KEYS, "options.CHECK-ID", "known_problems", *known):
        assert f"| `{key}` |" in text
    for kind in REQUESTS:
        rows = " ".join(line for line in text.splitlines() if f"`probes.{kind.table}." in line)
        for field in fields(kind):
            assert f"probes.{kind.table}.{field.name}`" in rows or f"`.{field.name}`" in rows


def test_the_check_of_ones_own_that_is_shown_works() -> None:
    source, *_ = blocks("docs/profile.md", "python")
    names = {**vars(model), "Iterator": Iterator, "check": check, "__name__": "linkage"}
    exec(source, names)
    (finding,) = names["missing_license"](wheel())
    assert finding == "no file under .dist-info/licenses"


def test_every_path_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    spelled = r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|toml))?|[a-z_]+\.py)(?::(\w+))?`"
    named = set(re.findall(spelled, text))
    assert len(named) > 40
    assert {(path, name) for path, name in named if not is_there(path, name)} == set()


def is_there(path: str, name: str) -> bool:
    """Whether the file or folder is there and, where one is named, the function or class in it."""
    package = Path(binary_checks.__file__).parent
    found = [root / path for root in (package, ROOT) if (root / path).exists()]
    defined = rf"^(?:def|class) {name}\b"
    return any(not name or re.search(defined, each.read_text("utf-8"), re.M) for each in found)


def test_each_thing_that_is_replaced_names_a_test_or_the_reason_against_it() -> None:
    text = (ROOT / "docs" / "replaces.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert [int(row[0]) for row in rows] == list(range(1, 133))
    assert {len(row) for row in rows} == {5}
    senseless = [row for row in rows if row[3] == "senseless"]
    assert len(senseless) == 9
    for number, *_, state, test in rows:
        if state == "senseless":
            assert test.endswith("."), number
        else:
            assert test.startswith("tests/"), number
            assert (ROOT / test).is_file(), test
