"""The page of HTML: what it shows, and that no package can make it do anything."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from binary_checks.documents.facts import write_facts
from binary_checks.errors import ProfileError
from binary_checks.model import (
    Accepted,
    CheckText,
    Edge,
    Entry,
    Level,
    Linkage,
    Note,
    NotInspected,
    Outcome,
    Package,
    Problem,
    Rule,
    RunResult,
)
from binary_checks.reports import html, writing
from binary_checks.reports.explanation import find_page
from fixtures.runs import PROFILE, package_result
from fixtures.values import elf_file, member, wheel

TEXT = CheckText(
    id="c", family="linkage", title="A ``title``.", why="it <b>hurts</b>.", fix="run ``x --y``."
)
BAD = Problem(path="demo/a.so", sentence="needs libgone.so.1, which nothing provides")
EVIL = "\n\x1b[31m\u202e\"'><img src=x onerror=alert(1)></title></style><script>alert(1)</script>&"
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "nav", "section"),
    *("footer", "article", "details", "summary", "div", "span", "p", "h1", "h2", "h3", "h4", "b"),
    *("bdi", "code", "a", "ul", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th"),
    *("td", "svg", "g", "path", "rect", "text", "pre"),
}


class Reader(HTMLParser):
    """Reads the page as a browser would, and holds it to be well-formed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.style = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({*(name for name, _ in attrs)}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def having(self, name: str) -> list[str]:
        """The values of an attribute."""
        return [str(attrs[name]) for _, attrs in self.elements if name in attrs]


def entry(outcome: Outcome = Outcome.PASSED, **fields: Any) -> Entry:
    return Entry(**{"check": "c", "family": "linkage", "outcome": outcome, **fields})


def keep(folder: Path, package: Package, edges: Iterable[Edge]) -> dict[str, Path]:
    """The facts of a package, as a run keeps them for its reports."""
    path = folder / "facts.json"
    pieces = write_facts(package, "", Linkage(target="t", edges=tuple(edges)), symbols=False)
    path.write_text("".join(pieces))
    return {"dist/demo-1.0.whl": path}


def read(*entries: Entry, about: dict[str, Any] | None = None, **fields: Any) -> Reader:
    known = {"name": "demo", "version": "1.0", **(about or {})}
    packages = (package_result("dist/demo-1.0.whl", *entries, **known),)
    run = RunResult(**{"exit_code": 1, "profile": PROFILE, "packages": packages, **fields})
    out = io.StringIO()
    html.write(run, out)
    reader = Reader()
    reader.feed(out.getvalue())
    reader.close()
    assert reader.open == []
    assert {tag for tag, _ in reader.elements} <= TAGS
    return reader


def need(path: str, needed: str, resolved: str | None = None, **fields: Any) -> Edge:
    rule = Rule.MISSING if resolved is None else Rule.RUNPATH
    fields = {"rule": rule, **fields}
    return Edge(path=path, architecture="x86_64", needed=needed, resolved=resolved, **fields)


def test_the_verdict_comes_first_then_problems_with_why_and_fix() -> None:
    page = read(entry(Outcome.FAILED, problems=(BAD,), inspected=1), checks=(TEXT,))
    said = [
        *("demo 1.0 is unfit", "1 problem · 1 check", "demo-1.0.whl", "error c A title ."),
        *(BAD.sentence, "demo/a.so", "Why it <b>hurts</b>.", "Fix run x --y ."),
    ]
    places = [page.text.index(each) for each in said]
    assert places == sorted(places)


def test_a_check_of_ours_links_to_its_page_and_another_does_not() -> None:
    ours = entry(Outcome.FAILED, check="missing-library", problems=(BAD,))
    assert read(ours).having("href") == [find_page("missing-library")]
    assert read(entry(Outcome.FAILED, problems=(BAD,))).having("href") == []


def test_several_packages_have_a_table_the_unfit_ones_first() -> None:
    packages = (
        package_result("dist/a.whl", entry(inspected=1)),
        package_result("dist/b.whl", entry(Outcome.FAILED, problems=(BAD,))),
        package_result("dist/c.whl", entry(Outcome.NOT_INSPECTED, reason="no driver")),
    )
    page = read(packages=packages)
    assert "1 of 3 packages are fit to ship 1 unfit 1 not judged 1 fit" in page.text
    assert [name for name in page.text.split() if name.endswith(".whl")][:3] == [
        *("b.whl", "c.whl", "a.whl")
    ]


def test_problems_of_one_cause_are_one_and_name_the_other_checks() -> None:
    gone = "library libgone.so.1"
    first = [Problem(path=f"demo/{n}.so", sentence="needs it", cause=gone) for n in range(77)]
    second = Problem(path="demo/0.so", sentence="lacks f", cause=gone, consequence=True)
    page = read(
        entry(Outcome.FAILED, problems=tuple(first)),
        entry(Outcome.FAILED, check="d", problems=(second,)),
    )
    assert "1 problem · " in page.text
    assert "73 more files" in page.text
    assert "Also found by d" in page.text
    assert "lacks f" not in page.text


def test_a_package_with_a_warning_or_for_another_interpreter_is_fit_and_shown_as_such() -> None:
    mild = Problem(path="demo/b.so", sentence="is unusual", level=Level.WARNING)
    page = read(entry(Outcome.WARNED, warnings=(mild,), inspected=1))
    assert "demo 1.0 is fit" in page.text
    assert "warning c" in page.text
    assert "fit with 1 warning · 1 check" in page.text
    runs = CheckText(id="r", family="runtime", title="", why="", fix="", runs_package=True)
    unrun = entry(Outcome.NOT_INSPECTED, check="r", family="runtime", reason="for cp312")
    page = read(entry(inspected=1), unrun, checks=(TEXT, runs))
    assert "demo 1.0 is fit, not run" in page.text
    assert "badge unrun" in page.having("class")


def test_whatever_was_not_judged_is_named_with_its_reason() -> None:
    page = read(
        entry(Outcome.NOT_INSPECTED, check="a", reason="no driver"),
        entry(check="b", not_inspected=(NotInspected(path="demo/x.so", sentence="is locked"),)),
        entry(Outcome.ERROR, check="d", reason="no network"),
        entry(Outcome.ACCEPTED, check="e", accepted=(Accepted(problem=BAD, reason="known"),)),
        entry(check="f", notes=(Note(sentence="has a note"), Note(sentence="another"))),
        complaints=("nothing was verified",),
        remarks=("runtime checks were left out",),
    )
    for said in (
        *("no driver a", "is locked b: demo/x.so", "broke no network d", "(known)"),
        *("has a note and 1 more", "nothing was verified", "runtime checks were left out"),
    ):
        assert said in page.text, said


def test_a_page_made_from_a_result_document_says_why_it_has_no_pictures() -> None:
    page = read(entry(inspected=1))
    assert "This page was made from a result document" in page.text
    assert not [tag for tag, _ in page.elements if tag == "svg"]


def test_the_graph_has_what_is_missing_in_red_and_the_table_says_the_same(tmp_path: Path) -> None:
    package = wheel(
        objects=(elf_file("demo/a.so", size=3000), elf_file("demo/libb.so", size=2000)),
        members=(member("demo/a.so", b"x" * 3000), member("demo/libb.so", b"x" * 2000)),
    )
    edges = (
        need("demo/a.so", "libb.so", "demo/libb.so"),
        need("demo/a.so", "libgone.so.1"),
        need("demo/a.so", "libother.so.2"),  # which no check blames
        need("demo/libb.so", "libc.so.6", "system:libc.so.6", rule=Rule.SYSTEM),
    )
    facts = keep(tmp_path, package, edges)
    page = read(entry(Outcome.FAILED, problems=(BAD,)), facts=facts)
    assert page.having("class").count("box missing") == 1
    assert "box open" in page.having("class")
    assert "a.so needs libgone.so.1 (missing)" in page.text
    assert "a.so needs libb.so (runpath)" in page.text
    assert "demo/libb.so libc.so.6 system system:libc.so.6" in page.text
    assert "Native code 5 kB 99.9% 2 files" in page.text
    page = read(entry(inspected=1), facts=keep(tmp_path, wheel(), ()))
    assert "Nothing in the package needs a library" in page.text


def test_what_packages_say_is_inert(tmp_path: Path) -> None:
    problem = Problem(path=EVIL, sentence=EVIL)
    package = wheel(
        objects=(elf_file(EVIL, size=5),),
        members=(member(EVIL, b"12345"), member(f"b{EVIL}", b"1")),
    )
    facts = keep(tmp_path, package, (need(EVIL, EVIL), need(EVIL, "x", f"wheel:{EVIL}:{EVIL}")))
    page = read(
        entry(Outcome.FAILED, problems=(problem,), warnings=(problem,)),
        entry(Outcome.ERROR, check=EVIL, family=EVIL, reason=EVIL),
        entry(Outcome.NOT_INSPECTED, check="n", reason=EVIL),
        entry(Outcome.ACCEPTED, check="a", accepted=(Accepted(problem=problem, reason=EVIL),)),
        entry(check="g", not_inspected=(NotInspected(path=EVIL, sentence=EVIL),)),
        entry(check="h", notes=(Note(path=EVIL, sentence=EVIL),)),
        about={"file_name": EVIL, "name": EVIL, "version": EVIL, "sha256": EVIL},
        facts=facts,
        complaints=(EVIL,),
        remarks=(EVIL,),
        versions={EVIL: EVIL},
    )
    names = {name for _, attrs in page.elements for name in attrs}
    assert not [name for name in names if name.startswith("on") or name in {"src", "style"}]
    assert all(link.startswith("#package-") for link in page.having("href"))
    assert "<script>" in page.text  # as text, which parsing has unescaped
    assert "\u202e" not in page.text
    assert "\x1b" not in page.text


def test_the_page_may_load_its_own_style_and_nothing_else() -> None:
    page = read(entry(inspected=1))
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    (policy,) = [content for content in page.having("content") if "default-src" in content]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert "url(" not in page.style
    assert "@import" not in page.style


def test_the_template_itself_may_be_read_by_a_screen_reader() -> None:
    page = read(entry(Outcome.FAILED, problems=(BAD,), inspected=1), checks=(TEXT,))
    assert dict(page.elements)["html"] == {"lang": "en"}
    levels = [int(tag[1]) for tag, _ in page.elements if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_without_the_extra_the_report_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(writing, "find_spec", lambda name: None)
    with pytest.raises(ProfileError, match=r"html needs jinja2.*: pip install jinja2 squarify"):
        writing.read_destination("--binary-report", "html:x.html", tmp_path)


def brightness(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2.2)."""
    shares = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_white_letters_can_be_read_on_every_tile_and_axe_cannot_tell() -> None:
    style = read(entry(inspected=1)).style
    for tone in ("native", "debug", "device", "python", "metadata", "other"):
        colours = re.findall(rf"--{tone}: (#[0-9a-f]{{6}});", style)
        assert len(colours) == 2  # light and dark
        assert all(1.05 / (brightness(colour) + 0.05) >= 4.5 for colour in colours), tone


def test_a_library_that_lies_where_nobody_looks_is_drawn_as_loaded_before(tmp_path: Path) -> None:
    package = wheel(objects=(elf_file("demo/a.so"), elf_file("demo/lib/libb.so")))
    page = read(entry(inspected=1), facts=keep(tmp_path, package, (need("demo/a.so", "libb.so"),)))
    assert "curve loaded" in page.having("class")
    assert "not found by any search, but already loaded at that time" in page.text


def test_a_command_that_mends_a_problem_has_the_file_in_it() -> None:
    mended = Problem(path="demo/a b.so", sentence="is wrong", command="patchelf --x {path}")
    page = read(entry(Outcome.FAILED, problems=(mended,)))
    assert "patchelf --x 'demo/a b.so'" in page.text
    evil = Problem(path=EVIL, sentence="is wrong", command="patchelf --x {path}")
    assert "patchelf" not in read(entry(Outcome.FAILED, problems=(evil,))).text
