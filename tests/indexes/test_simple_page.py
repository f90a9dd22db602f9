"""Pages of indexes say the same in HTML and JSON; what is no file of an index is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from binary_checks.errors import GatherError
from binary_checks.indexes import simple_page
from binary_checks.indexes.simple_page import ListedFile, read_page
from binary_checks.web.transport import WebAnswer

URL = "https://index.example/simple/demo/"
WHEEL = "demo-1.0-py3-none-any.whl"
DIGEST = "ab" * 32


def html(body: str, kind: str = "text/html") -> list[ListedFile]:
    answer = WebAnswer(url=URL, content=body.encode(), content_type=kind)
    return read_page(answer, "https://index.example/simple")


def rows(*files: dict[str, Any], **page: Any) -> list[ListedFile]:
    content = json.dumps({"meta": {"api-version": "1.1"}, "files": files, **page}).encode()
    kind = "application/vnd.pypi.simple.v1+json"
    return read_page(WebAnswer(url=URL, content=content, content_type=kind), "https://i")


def test_a_link_says_all_that_the_standards_know() -> None:
    (file,) = html(
        f'<a href="../../files/{WHEEL}#sha256={DIGEST}" data-requires-python="&gt;=3.9"'
        f' data-yanked="bad &amp; old" data-core-metadata="sha256={DIGEST}"'
        ' data-provenance="p">x</a>'
    )
    assert file.url == f"https://index.example/files/{WHEEL}"
    assert (file.file_name, file.hashes) == (WHEEL, {"sha256": DIGEST})
    assert (file.requires_python, file.yanked) == (">=3.9", "bad & old")
    assert (file.metadata, file.metadata_hash, file.provenance) == (
        True,
        f"sha256={DIGEST}",
        True,
    )


def test_json_says_the_same_and_more() -> None:
    (file,) = rows(
        {
            "filename": WHEEL,
            "url": f"../../files/{WHEEL}",
            "hashes": {"sha256": DIGEST},
            "requires-python": ">=3.9",
            "yanked": "bad & old",
            "core-metadata": {"sha256": DIGEST},
            "provenance": "p",
            "size": 7,
            "upload-time": "2026-11-21T03:12:45Z",
        },
        meta={"api-version": "1.4", "_last-serial": 5},
    )
    assert file.url == f"https://index.example/files/{WHEEL}"
    assert (file.hashes, file.metadata_hash) == ({"sha256": DIGEST}, f"sha256={DIGEST}")
    assert (file.yanked, file.size, file.uploaded) == ("bad & old", 7, "2026-11-21T03:12:45Z")
    assert (file.provenance, file.serial) == (True, "5")


META = '<meta name="pypi:repository-version" content="{}">'


@pytest.mark.parametrize("version", ["2.0", "10.1", "0.9", "", "x"])
def test_a_page_of_another_major_version_is_refused_in_both_forms(version: str) -> None:
    refused = f"version '{version}' of the index API"
    with pytest.raises(GatherError, match=refused):
        html(f'{META.format(version)}<a href="{WHEEL}">')
    with pytest.raises(GatherError, match=refused):
        rows(meta={"api-version": version})


@pytest.mark.parametrize("version", ["1.0", "1.9"])
def test_a_page_of_a_later_minor_version_is_read(version: str) -> None:
    page = f"<META name='PyPI:repository-version' content='{version}' /><a href={WHEEL}>"
    assert [each.file_name for each in html(page)] == [WHEEL]
    assert rows({"filename": WHEEL, "url": WHEEL}, meta={"api-version": version})


@pytest.mark.parametrize(
    ("yanked", "read"), [(False, None), (True, ""), ("", None), ("why", "why"), (None, None)]
)
def test_yanked_is_a_word_or_a_reason(yanked: object, read: str | None) -> None:
    assert rows({"filename": WHEEL, "url": WHEEL, "yanked": yanked})[0].yanked == read
    assert [each.yanked for each in html(f'<a data-yanked href="{WHEEL}">')] == [""]


@pytest.mark.parametrize(
    "link",
    [
        f"<A HREF='{WHEEL}'>",
        f"<a\n href={WHEEL}>",
        f'<a class="x>y" href="{WHEEL}">',
        f'<a data-requires-python=">=3.8" href="{WHEEL}"/>',
        f'<base href="https://index.example/simple/demo/"><a href="{WHEEL}">',
        f'<base href="https://[::1"><a href="{WHEEL}">',  # no URL, which does not count
    ],
)
def test_links_are_written_in_many_ways(link: str) -> None:
    assert [each.url for each in html(link)] == [f"{URL}{WHEEL}"]


@pytest.mark.parametrize(
    "link",
    [
        f'<!-- <a href="{WHEEL}"> -->',
        f'<a name="{WHEEL}">',
        '<a href="javascript:alert(1)/x.whl">',
        '<a href="ftp://h/x.whl">',
        '<a href="http://[/x.whl">',
        '<a href="/files/..">',
        '<a href="/files/%2e%2e%2fx.whl">',
        '<a href="/files/a%5Cb.whl">',
        '<a href="/files/">',
        f'<a href="/files/{"x" * 300}.whl">',
    ],
)
def test_what_is_no_link_to_a_file_is_left_out(link: str) -> None:
    assert html(link) == []


@pytest.mark.parametrize(
    "row",
    [
        {"filename": "../../x.whl", "url": "../../x.whl"},
        {"filename": WHEEL, "url": "other-1.0-py3-none-any.whl"},
        {"filename": 5, "url": WHEEL},
        {"filename": WHEEL},
        {"filename": WHEEL, "url": f"file://{'a' * 9000}/{WHEEL}"},
        "text",
    ],
)
def test_nor_is_a_row_that_says_two_things(row: Any) -> None:
    assert rows(row) == []


@pytest.mark.parametrize(
    "content",
    ["[]", "{", '{"meta": {"api-version": "2.0"}, "files": []}', "[" * 100_000, '{"meta": 1}'],
)
def test_what_is_no_page_in_json_is_one_line(content: str) -> None:
    answer = WebAnswer(
        url=URL,
        content=content.encode(),
        content_type="application/vnd.pypi.simple.v1+json",
    )
    with pytest.raises(GatherError, match=r"^https://index.example/simple/demo/: "):
        read_page(answer, "https://i")


def test_a_login_page_is_none_of_an_index_but_an_empty_one_is() -> None:
    assert html("<!DOCTYPE html><html><body><h1>Links for demo</h1></body></html>") == []
    with pytest.raises(GatherError, match=r"a web page \(HTML\), but not of an index"):
        html("<html><body><form action=/login><input name=user></form></body></html>")
    with pytest.raises(GatherError, match=r"not a page of an index \(application/pdf\)"):
        html("%PDF", kind="application/pdf")


@pytest.mark.parametrize(
    "body", ['<a "' * 300_000, "<a " + "x=" * 500_000, "<!--" * 500_000, "<a x='" * 200_000]
)
def test_a_page_without_an_end_to_anything_is_read_once(body: str) -> None:
    assert html(body) == []  # what takes quadratic time never comes here


def test_a_page_with_too_many_links_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple_page, "_MOST", 100)
    with pytest.raises(GatherError, match="lists more than 100 files"):
        html(f"<a href={WHEEL}>" * 101)
    with pytest.raises(GatherError, match="more than 100 links"):
        html("<a href=/>" * 101)
    with pytest.raises(GatherError, match="lists more than 100 files"):
        rows(*[{"filename": WHEEL, "url": WHEEL}] * 101)


@pytest.mark.parametrize("base", ["", '<base href="file:///home/user/">'])
def test_a_server_names_no_file_of_this_host(base: str) -> None:
    assert html(f'{base}<a href="file:///home/user/{WHEEL}">x</a>') == []
    assert rows({"filename": WHEEL, "url": f"file:///home/user/{WHEEL}"}) == []


def test_a_hash_is_hexadecimal_and_may_be_written_in_capitals() -> None:
    """What is compared with it never is."""
    (file,) = rows({"filename": WHEEL, "url": WHEEL, "hashes": {"sha256": "../../x"}})
    assert file.hashes == {}
    (link,) = html(f'<a href="{WHEEL}" data-core-metadata="sha256={DIGEST.upper()}">x</a>')
    (row,) = rows(
        {"filename": WHEEL, "url": WHEEL, "core-metadata": {"sha256": DIGEST.upper()}, "hashes": {}}
    )
    assert link.metadata_hash == row.metadata_hash == f"sha256={DIGEST}"
