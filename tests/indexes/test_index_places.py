"""Where packages come from: the user's settings, and places that cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import GatherError, ProfileError
from binary_checks.indexes.index_places import IndexPlaces, list_files, read_index_places
from binary_checks.web.client import Client
from fixtures.package_index import Conduct, PackageIndex
from tests.indexes.conftest import ask_us, offer


def name(version: str) -> str:
    return f"demo-{version}-py3-none-any.whl"


def test_an_index_that_is_down_is_named_although_others_answer(
    index: PackageIndex, tmp_path: Path
) -> None:
    """pip goes on without it; what it would have had may be what users get."""
    offer(index, tmp_path, "1.0")
    places = IndexPlaces(indexes=(index.simple, "http://127.0.0.1:9/simple"))
    with pytest.raises(GatherError, match=r"^http://127\.0\.0\.1:9/simple/demo/: Connection"):
        ask_us("demo", places)
    # one without the project is none that broke
    places = IndexPlaces(indexes=(f"{index.url}/other", index.simple))
    assert ask_us("demo", places) == name("1.0")


def test_credentials_of_an_index_are_sent_and_not_shown(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "1.0")
    index.conduct["/simple/demo/"] = Conduct(credentials=("me", "secret"))
    simple = index.simple.replace("//", "//me:{}@", 1)
    assert ask_us("demo", IndexPlaces(indexes=(simple.format("secret"),))) == name("1.0")
    with pytest.raises(GatherError) as caught:
        ask_us("demo", IndexPlaces(indexes=(simple.format("wrong"),)))
    assert str(caught.value) == f"{index.simple}demo/: asks for credentials (answers 401)"


def test_an_index_that_pip_leaves_out_is_refused() -> None:
    with pytest.raises(ProfileError, match="pip leaves out an index without https"):
        list_files(Client(), IndexPlaces(indexes=("http://index.example/simple",)), "demo")


def test_the_settings_are_pips_and_else_uvs() -> None:
    pip = {"index-url": "https://a/simple", "extra-index-url": "https://b\nhttps://c", "pre": "1"}
    uv = {
        "UV_DEFAULT_INDEX": "https://u",
        "UV_INDEX": "x=https://v https://w",
        "UV_FIND_LINKS": "/l",
    }
    places = read_index_places(pip, uv)
    assert (places.indexes, places.prereleases) == (
        ("https://a/simple", "https://b", "https://c"),
        True,
    )
    places = read_index_places({}, uv)
    assert (places.indexes, places.links) == (
        ("https://u", "https://v", "https://w"),
        ("file:///l",),
    )
    assert read_index_places({}, {}).indexes == ("https://pypi.org/simple",)
    assert read_index_places({"all-releases": ":all:"}, {}).prereleases
    assert read_index_places({"no-index": "true"}, {}).indexes == ()
