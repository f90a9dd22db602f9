"""Indexes contain only our own markup and links to packages, whatever documents contain."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urljoin

from hypothesis import example, given, settings
from hypothesis import strategies as st

from binary_checks.fleet.artifacts import Artifact
from binary_checks.fleet.store import require_derived
from tests.fleet.artifacts.made_artifacts import index_members
from tests.fleet.artifacts.test_simple_index import Links

TOP = "https://example.org/a/b/"
TAGS = {"html", "head", "meta", "title", "body", "h1", "a", "br"}
ATTRIBUTES = {
    *("href", "data-requires-python", "data-core-metadata", "data-dist-info-metadata"),
    "data-yanked",
}
NASTY = ["../x", '"><script>', "a\nb", "//evil", "javascript:x", "a%2f..", "&amp;", "", "é\u202e"]
texts = st.one_of(st.sampled_from(NASTY), st.text(max_size=30))
wheels = st.builds(
    "{}-{}-py3-none-any.whl".format,
    st.one_of(st.sampled_from(["demo", "Demo", "my_lib"]), texts),
    st.one_of(st.sampled_from(["1.0", "1.0+cpu", "1!2.0rc1"]), texts),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)
KEYS = ("name", "version", "build", "build_number", "depends", "timestamp", "noarch", "license")
sound = {"name": "demo", "version": "1.0", "build": "0", "build_number": 0, "depends": ["a"]}
records = st.one_of(
    st.dictionaries(st.sampled_from(KEYS) | texts, values, max_size=6),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=2).map(lambda row: {**sound, **row}),
)
said: dict[str, st.SearchStrategy[Any]] = {
    "sha256": st.integers(0, 5).map(lambda n: f"{n:064x}"),
    "size": st.integers(0, 1 << 70),
    "version": texts,
    "requires_python": st.one_of(st.sampled_from([">=3.9", "== " + "9" * 5000]), texts),
    "metadata_sha256": st.sampled_from(["", "a" * 64]),
    "pushed": texts | st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    "record": records,
}
artifacts = st.one_of(
    st.builds(
        Artifact,
        **said,
        kind=st.sampled_from(["wheel", "conda", "library", "x"]),
        project=st.one_of(st.sampled_from(["demo", "my-lib"]), texts),
        file_name=wheels | texts | st.sampled_from(["demo-1.0-0.conda", "demo-1.0-0.tar.bz2"]),
        subdir=st.one_of(st.sampled_from(["", "noarch", "linux-64"]), texts),
    ),
    st.builds(  # what is listed, whatever else it says
        Artifact,
        **said,
        kind=st.just("wheel"),
        project=st.just("demo"),
        file_name=st.sampled_from(["demo-1.0-py3-none-any.whl", "demo-1!2+c-py3-none-any.whl"]),
    ),
    st.builds(
        Artifact,
        **{**said, "record": records.map(lambda row: {**row, **sound})},
        kind=st.just("conda"),
        project=texts,
        file_name=st.just("demo-1.0-0.conda"),
        subdir=st.sampled_from(["noarch", "linux-64"]),
    ),
)


def demand_ours(name: str, page: bytes) -> None:
    """Nothing but what an index is made of."""
    assert require_derived(name) == name
    if not name.endswith(".html"):
        json.loads(page)
        return
    found = Links(page.decode())
    assert {*found.tags} <= TAGS
    for attributes in found.found:
        assert attributes.keys() <= ATTRIBUTES
        link = attributes["href"] or ""
        target = urljoin(TOP + name, link)
        below = "files/" if "#sha256=" in link else "simple/release/"
        assert target.startswith(TOP + below)
        assert ".." not in unquote(target).split("/")


ENDLESS = Artifact(
    sha256="0" * 64,
    file_name="demo-1.0-py3-none-any.whl",
    size=0,
    kind="wheel",
    project="demo",
    requires_python="==" + "9" * 5000,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(artifacts, texts | st.none()), max_size=4))
@example([(ENDLESS, None)])
def test_no_document_writes_markup_or_leads_elsewhere(
    members: list[tuple[Artifact, str | None]],
) -> None:
    found = index_members(members)
    for name, page in found.pages.items():
        demand_ours(name, page)
    for name, file in found.files.items():
        assert require_derived(name) == name
        assert file.source.startswith("files/")
    listed = {each.sha256 for each in (*found.wheels, *found.condas)}
    known: Any = {each.sha256 for each, _ in members if each.kind in ("wheel", "conda")}
    assert listed <= known
