"""Pages of a channel, as the parsers of installers read them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin

import pytest

from binary_checks.fleet.artifacts import (
    Artifact,
    DerivedIndex,
    IndexedMember,
    derive_index,
    format_upload_time,
    parse_upload_time,
)
from binary_checks.indexes.simple_page import ListedFile, metadata_url, read_page
from binary_checks.web.transport import WebAnswer
from tests.fleet.artifacts.made_artifacts import index_members

TOP = "https://example.org/store/"
TAG = "py3-none-any"


def wheel(name: str = "demo-1.0-py3-none-any.whl", number: int = 1, **said: Any) -> Artifact:
    sha256 = f"{number:064x}"
    usual = {"project": name.partition("-")[0].replace("_", "-"), "size": 100 + number}
    return Artifact(sha256=sha256, file_name=name, kind="wheel", **{**usual, **said})


def index_of(*artifacts: Artifact, base: str = "", **withdrawn: str) -> DerivedIndex:
    return index_members(((each, withdrawn.get(each.project)) for each in artifacts), base)


def read(index: DerivedIndex, name: str, kind: str = "text/html") -> list[ListedFile]:
    """As our own reader of indexes has it, which does what pip does."""
    answer = WebAnswer(url=f"{TOP}{name}", content_type=kind, content=index.pages[name])
    return read_page(answer, TOP)


class Links(HTMLParser):
    """The links of a page, as the standard library's parser has them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "a":
            self.found.append(dict(attrs))


def links(index: DerivedIndex, name: str) -> list[dict[str, str | None]]:
    return Links(index.pages[name].decode()).found


PAGE, DATA = "simple/release/demo/index.html", "simple/release/demo/index.json"


def test_a_page_names_every_file_with_its_hash_and_where_it_and_its_metadata_lie() -> None:
    demo = wheel(
        "demo-1.0+cpu-py3-none-any.whl", requires_python=">=3.9,<4", metadata_sha256="a" * 64
    )
    (link,) = links(index_of(demo), PAGE)
    assert link == {
        "href": f"../../../files/demo/{demo.sha256}/demo-1.0%2Bcpu-py3-none-any.whl"
        f"#sha256={demo.sha256}",
        "data-requires-python": ">=3.9,<4",
        "data-core-metadata": f"sha256={'a' * 64}",
        "data-dist-info-metadata": f"sha256={'a' * 64}",
    }
    (found,) = read(index_of(demo), PAGE)
    assert unquote(metadata_url(found.url)) == TOP + demo.metadata_name


def test_the_same_is_said_as_json() -> None:
    demo = wheel(
        requires_python=">=3.9",
        metadata_sha256="a" * 64,
        size=7,
        pushed="2026-11-22T19:00:00+01:00",
    )
    assert json.loads(index_of(demo).pages[DATA]) == {
        "meta": {"api-version": "1.1"},
        "name": "demo",
        "versions": ["1.0"],
        "files": [
            {
                "filename": "demo-1.0-py3-none-any.whl",
                "url": f"../../../files/demo/{demo.sha256}/demo-1.0-py3-none-any.whl",
                "hashes": {"sha256": demo.sha256},
                "size": 7,
                "core-metadata": {"sha256": "a" * 64},
                "dist-info-metadata": {"sha256": "a" * 64},
                "yanked": False,
                "requires-python": ">=3.9",
                "upload-time": "2026-11-22T18:00:00.000000Z",
            }
        ],
    }


def test_both_pages_say_the_same_to_our_own_reader() -> None:
    found = index_of(
        wheel("demo-1.0-py3-none-any.whl", 1, requires_python=">=3.9", metadata_sha256="b" * 64),
        wheel("demo-1.10-py3-none-any.whl", 2),
        wheel("demo-1.9+cu.126-py3-none-any.whl", 3),
    )
    html, data = read(found, PAGE), read(found, DATA, "application/vnd.pypi.simple.v1+json")
    assert [each.file_name.split("-")[1] for each in html] == ["1.0", "1.9+cu.126", "1.10"]
    for one, other in zip(html, data, strict=True):
        assert (one.url, one.hashes, one.requires_python) == (
            other.url,
            other.hashes,
            other.requires_python,
        )
        assert (one.metadata, one.metadata_hash) == (other.metadata, other.metadata_hash)
        assert one.url.startswith(f"{TOP}files/demo/")
        assert unquote(one.url).endswith(one.file_name)


def test_the_list_of_projects_leads_to_their_pages() -> None:
    found = index_of(wheel("demo-1.0-py3-none-any.whl"), wheel("my_lib-2.0-py3-none-any.whl", 2))
    root = "simple/release/index.html"
    assert [each["href"] for each in links(found, root)] == ["demo/", "my-lib/"]
    for each in links(found, root):
        assert urljoin(TOP + root, f"{each['href']}index.html").removeprefix(TOP) in found.pages
    assert json.loads(found.pages["simple/release/index.json"])["projects"] == [
        {"name": "demo"},
        {"name": "my-lib"},
    ]


def test_one_page_has_the_files_of_all_projects() -> None:
    found = index_of(wheel("demo-1.0-py3-none-any.whl"), wheel("other-2.0-py3-none-any.whl", 2))
    listed = read(found, "simple/release/files.html")
    assert [each.file_name for each in listed] == [
        "demo-1.0-py3-none-any.whl",
        "other-2.0-py3-none-any.whl",
    ]
    assert {each.url for each in listed} == {
        each.url
        for project in ("demo", "other")
        for each in read(found, f"simple/release/{project}/index.html")
    }


def test_a_channel_without_members_has_pages_that_say_so() -> None:
    found = index_of()
    assert links(found, "simple/release/index.html") == []
    assert json.loads(found.pages["simple/release/index.json"])["projects"] == []
    assert not any(name.startswith("conda/") for name in found.pages)
    assert found.faults == ()


@pytest.mark.parametrize("reason", ["broken: <b>&\"'\n", "", "x" * 501])
def test_a_file_that_was_withdrawn_is_yanked(reason: str) -> None:
    found = index_of(wheel(), demo=reason)
    (html,) = read(found, PAGE)
    (data,) = read(found, DATA, "application/vnd.pypi.simple.v1+json")
    assert html.yanked == " ".join(reason.split())[:500]
    assert data.yanked == html.yanked


HOSTILE = '>=3 "><script>alert(1)</script><a href="//evil'


def test_a_requirement_that_is_none_is_left_out_and_never_markup() -> None:
    found = index_of(wheel(requires_python=HOSTILE))
    for name, page in found.pages.items():
        assert b"<script" not in page, name
        assert b"evil" not in page, name
    assert "requires-python" not in json.loads(found.pages[DATA])["files"][0]
    for digits, listed in ((498, True), (499, False)):  # with the operator, 500 and 501 characters
        found = index_of(wheel(requires_python=f">={'3' * digits}"))
        assert ("data-requires-python" in links(found, PAGE)[0]) is listed
    escaped = "<4 , >= 3.9 , === '\"&<b>"  # which is one, with letters of markup
    found = index_of(wheel(requires_python=escaped))
    assert links(found, PAGE)[0]["data-requires-python"] == escaped
    assert "b" not in Links(found.pages[PAGE].decode()).tags


@pytest.mark.parametrize(
    ("name", "project", "said"),
    [
        ("demo-1.0-py3-none-any.whl", "other", "says demo, but its project is 'other'"),
        ("demo-1.0-py3-none-any.whl", "../../x", "its project is '../../x'"),
        ("My_Lib-1.0-py3-none-any.whl", "My_Lib", "its file name says my-lib"),
        ("demo.zip", "demo", "not the name of a wheel"),
        ('de"mo<-1.0-py3-none-any.whl', 'de"mo<', "not the name of a wheel"),
        ("../demo-1.0-py3-none-any.whl", "demo", "not the name of a wheel"),
        ("demo-one-py3-none-any.whl", "demo", "not the name of a wheel"),
    ],
)
def test_what_an_installer_would_not_know_is_not_listed_but_named(
    name: str, project: str, said: str
) -> None:
    found = index_of(wheel(), wheel(name, 2, project=project))
    (fault,) = found.faults
    assert "not listed: " in fault
    assert said in fault
    assert set(found.pages) == set(index_of(wheel()).pages)
    assert len(links(found, PAGE)) == 1


def test_a_member_that_its_document_calls_otherwise_is_not_listed() -> None:
    member = IndexedMember(name="demo/demo-2.0-py3-none-any.whl", artifact=wheel())
    found = derive_index("release", [member])
    assert found.faults == (
        "demo/demo-2.0-py3-none-any.whl: not listed: its artifact.json calls it "
        "demo/demo-1.0-py3-none-any.whl",
    )


def test_of_two_files_with_one_name_none_is_listed() -> None:
    found = index_of(wheel(number=1), wheel(number=2))
    assert links(found, "simple/release/files.html") == []
    assert "two files have that name" in found.faults[0]


def test_the_order_of_members_is_none_of_the_index() -> None:
    several = [wheel(f"demo-1.{n}-py3-none-any.whl", n) for n in range(20)]
    assert index_of(*several).pages == index_of(*reversed(several)).pages


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("2026-11-22T18:00:00Z", "2026-11-22T18:00:00.000000Z"),
        ("2026-11-22T18:00:00.5+02:00", "2026-11-22T16:00:00.500000Z"),
        ("2026-11-22T18:00:00", ""),
        ("yesterday", ""),
        ("", ""),
        ("0001-01-01T00:00:00+14:00", ""),
    ],
)
def test_times_are_spelled_as_installers_want_them(text: str, spelled: str) -> None:
    assert format_upload_time(text.replace(".5+", ".500000+")) == spelled
    assert (parse_upload_time(text.replace(".5+", ".500000+")) is None) is (spelled == "")
