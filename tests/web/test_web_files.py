"""Files are read in parts, or whole after cuts, and never of two states mixed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from binary_checks.errors import (
    GatherError,
    MalformedError,
    RemoteChanged,
    Unavailable,
)
from binary_checks.web.client import Client
from binary_checks.web.transport import is_html
from binary_checks.web.web_settings import WebSettings
from fixtures.package_index import Conduct, PackageIndex
from tests.web.conftest import CONTENT


def test_parts_of_a_file_are_read_with_a_request_each(index: PackageIndex, client: Client) -> None:
    with closing(client.open_remote(f"{index.url}/dl/x.whl")) as file:
        assert (file.size, file.ranges, len(index.asked)) == (len(CONTENT), True, 1)
        assert file.read(0, 10) == CONTENT[:10]
        assert file.read(len(CONTENT) - 10, 10) == CONTENT[-10:]  # came with the first
        assert (len(index.asked), index.sent) == (2, 262_154)
        with pytest.raises(MalformedError):
            file.read(len(CONTENT) - 1, 2)


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_parts_are_read_from_several_threads(
    index: PackageIndex, client: Client, tmp_path: Path, scheme: str
) -> None:
    url = f"{index.url}/dl/x.whl" if scheme == "http" else (tmp_path / "x.whl").as_uri()
    places = [(start * 7919) % 700_000 for start in range(64)]
    with closing(client.open_remote(url)) as file, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda place: file.read(place, 1000), places))
    assert found == [CONTENT[place : place + 1000] for place in places]


def test_a_server_that_cannot_count_from_the_end_is_asked_otherwise_and_one_without_ranges_not(
    index: PackageIndex, client: Client
) -> None:
    index.conduct["/dl/x.whl"].suffixes = False
    with closing(client.open_remote(f"{index.url}/dl/x.whl")) as file:
        assert file.read(1000, 5) == CONTENT[1000:1005]
    index.conduct["/dl/x.whl"].ranges = False
    with closing(client.open_remote(f"{index.url}/dl/x.whl")) as file:
        assert (file.size, file.ranges) == (len(CONTENT), False)
        with pytest.raises(Unavailable, match="does not support range requests"):
            file.read(0, 1)


@pytest.mark.parametrize(
    "conduct",
    [
        Conduct(changes=True),
        Conduct(etag="", last_modified="Sat, 21 Nov 2026 00:00:00 GMT"),
        Conduct(etag='W/"1"'),
        Conduct(etag=""),
    ],
    ids=["new etag", "date", "weak", "neither"],
)
def test_a_file_that_changed_is_told_apart(
    index: PackageIndex, client: Client, conduct: Conduct, tmp_path: Path
) -> None:
    index.conduct["/dl/x.whl"] = conduct
    with closing(client.open_remote(f"{index.url}/dl/x.whl")) as file:
        if not conduct.changes:
            assert file.read(0, 1) == CONTENT[:1]
            (tmp_path / "x.whl").write_bytes(CONTENT + b"more")
            conduct.last_modified = conduct.last_modified.replace("21", "22")
            conduct.etag = conduct.etag.replace("1", "2") if conduct.etag else conduct.etag
        with pytest.raises(RemoteChanged, match=r"x\.whl: the file changed while it was read"):
            file.read(0, 10)


def test_an_address_that_expired_is_asked_for_again(index: PackageIndex, client: Client) -> None:
    index.conduct["/stable"].redirect = "/dl/x.whl"
    with closing(client.open_remote(f"{index.url}/stable")) as file:
        index.conduct["/dl/x.whl"].failures = [403]
        assert file.read(0, 4) == CONTENT[:4]


def test_a_login_page_is_no_file(index: PackageIndex, client: Client, tmp_path: Path) -> None:
    index.conduct["/dl/x.whl"].html = True
    url = f"{index.url}/dl/x.whl"
    with pytest.raises(GatherError, match=r"x\.whl: a web page \(HTML\) instead of the file"):
        client.open_remote(url)
    with pytest.raises(GatherError, match=r"x\.whl: a web page \(HTML\)"):
        client.download(url, tmp_path / "y")


@pytest.mark.parametrize(
    ("conduct", "hashed"),
    [(Conduct(cut_after=300_000), False), (Conduct(etag="", cut_after=400_000), True)],
    ids=["with a mark of the server", "what a hash will verify"],
)
def test_a_download_goes_on_after_every_cut(
    index: PackageIndex, client: Client, tmp_path: Path, conduct: Conduct, hashed: bool
) -> None:
    index.conduct["/dl/x.whl"] = conduct
    seen: list[tuple[int, int]] = []
    url = f"{index.url}/dl/x.whl"
    client.download(url, tmp_path / "y", progress=lambda *row: seen.append(row), hashed=hashed)
    assert (tmp_path / "y").read_bytes() == CONTENT
    assert index.sent == len(CONTENT)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("same", [True, False])
def test_a_download_goes_on_in_another_process_if_the_file_is_the_same(
    index: PackageIndex, client: Client, tmp_path: Path, same: bool
) -> None:
    url = f"{index.url}/dl/x.whl"
    index.conduct["/dl/x.whl"].cut_after = 300_000
    with pytest.raises(GatherError, match="the connection was cut"):
        Client(WebSettings(retries=0)).download(url, tmp_path / "y")
    assert 0 < (tmp_path / "y").stat().st_size < len(CONTENT)
    del index.conduct["/dl/x.whl"]
    if not same:
        (tmp_path / "x.whl").write_bytes(CONTENT[::-1])
    before = index.sent
    client.download(url, tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == (tmp_path / "x.whl").read_bytes()
    assert (index.sent - before < len(CONTENT)) == same


def test_a_file_of_another_size_than_the_index_says_is_not_fetched(
    index: PackageIndex, client: Client, tmp_path: Path
) -> None:
    with pytest.raises(GatherError, match=r"1,048,576 bytes, but the index states 5"):
        client.download(f"{index.url}/dl/x.whl", tmp_path / "y", size=5)


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (b"<!DOCTYPE html>", True),
        (b" <!-- a --> <!--> b -->\n<html>", True),
        (b"<!---->" * 140 + b"x", False),
        (b"<!-- <html>", False),
        (b"PK\x03\x04", False),
    ],
)
def test_a_web_page_is_told_by_its_head(head: bytes, is_one: bool) -> None:
    assert is_html(head) is is_one
