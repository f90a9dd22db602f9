"""Libraries are found by the names of links to them."""

from __future__ import annotations

import pytest

from binary_checks.loaders import relocate, simulate
from binary_checks.model import Layout, Linkage, Member
from fixtures.linking import (
    EXTENSION,
    dylib,
    extension,
    library,
    macos,
    needs,
    resolutions,
    target,
)
from fixtures.values import macho_file, wheel


def linked(links: dict[str, str], *, search: str = "$ORIGIN/lib") -> Linkage:
    members = [Member(path=path, archive_name=path, target=to) for path, to in links.items()]
    objects = [
        extension("liba.so.1", runpath=(search,)),
        library("demo/lib/liba.so.1.2.3", name="liba.so.1"),
    ]
    return simulate(wheel(members=members, objects=objects), target())


def test_a_library_is_found_by_the_name_of_a_link() -> None:
    linkage = linked({"demo/lib/liba.so.1": "demo/lib/liba.so.1.2.3"})
    assert resolutions(linkage, EXTENSION) == {"liba.so.1": ("demo/lib/liba.so.1.2.3", "runpath")}
    assert linkage.roots == (EXTENSION,)


def test_links_lead_to_links() -> None:
    links = {"demo/lib/liba.so.1": "demo/lib/b", "demo/lib/b": "demo/lib/liba.so.1.2.3"}
    assert resolutions(linked(links), EXTENSION)["liba.so.1"][1] == "runpath"


def test_a_link_to_a_folder_is_followed() -> None:
    links = {"demo/lib64": "demo/lib", "demo/lib/liba.so.1": "demo/lib/liba.so.1.2.3"}
    linkage = linked(links, search="$ORIGIN/lib64")
    assert resolutions(linkage, EXTENSION)["liba.so.1"][1] == "runpath"


def test_a_link_to_a_folder_is_followed_within_the_needed_name() -> None:
    link = Member(path="demo/a", archive_name="demo/a", target="demo/b")
    needer = macho_file(
        architecture="aarch64",
        needed=needs("@rpath/a/libx.dylib"),
        rpaths=("@loader_path",),
    )
    package = wheel(members=(link,), objects=(needer, dylib("demo/b/libx.dylib")))
    assert resolutions(simulate(package, macos())) == {
        "@rpath/a/libx.dylib": ("demo/b/libx.dylib", "rpath")
    }


@pytest.mark.parametrize(
    "links",
    [
        {},
        {"demo/lib/liba.so.1": "demo/lib/liba.so.1"},
        {"demo/lib/liba.so.1": "demo/lib/b", "demo/lib/b": "demo/lib/liba.so.1"},
        {"demo/lib/liba.so.1": "/usr/lib/liba.so.1"},
        {"demo/lib/liba.so.1": "demo/lib/gone"},
        {"demo": "demo/" + "x/" * 5000},
    ],
)
def test_a_link_that_leads_to_no_library_finds_none(links: dict[str, str]) -> None:
    assert resolutions(linked(links), EXTENSION)["liba.so.1"] == (None, "missing")


def test_a_link_and_what_it_leads_to_move_with_their_package() -> None:
    file = Member(path="x/lib/liba.so", archive_name="liba.so")
    link = Member(path="x/lib/liba.so.1", archive_name="liba.so.1", target="x/lib/liba.so")
    package = wheel(members=(file, link), layout=Layout(site_packages="x"))
    moved = relocate(package, Layout(site_packages="y/z"))
    assert [(each.path, each.target) for each in moved.members if "lib/" in each.path] == [
        ("y/z/lib/liba.so", ""),
        ("y/z/lib/liba.so.1", "y/z/lib/liba.so"),
    ]
