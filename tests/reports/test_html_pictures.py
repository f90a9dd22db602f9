"""The pictures of the page: who needs whom, and what takes the bytes, within bounds."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import (
    DeviceCode,
    DeviceKind,
    DeviceLinking,
    Edge,
    Kind,
    Member,
    ObjectFile,
    Package,
    Rule,
)
from binary_checks.reports.html.graph import (
    HEIGHT,
    MOST_BOXES,
    MOST_ROWS,
    WIDTH,
    Graph,
    draw_graph,
    place,
)
from binary_checks.reports.html.templating import format_size, shorten
from binary_checks.reports.html.treemap import Treemap, draw_treemap
from fixtures.values import elf_file


def need(path: str, needed: str, resolved: str | None = None) -> Edge:
    rule = Rule.MISSING if resolved is None else Rule.RUNPATH
    return Edge(path=path, architecture="x86_64", needed=needed, resolved=resolved, rule=rule)


def draw(*edges: Edge) -> Graph:
    graph = draw_graph(package(), edges, lambda name: True)
    assert graph is not None
    return graph


@given(
    st.integers(1, 15).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))),
            st.sets(st.integers(0, count - 1), max_size=2),
        )
    )
)
def test_no_two_boxes_overlap_and_all_lie_in_the_picture(
    graph: tuple[int, set[tuple[int, int]], set[int]],
) -> None:
    count, links, last = graph
    places = place(count, links, last)
    assert len(places.corners) == count
    assert {*places.curves} == {link for link in links if link[0] != link[1]}
    for x, y in places.corners:
        assert -0.01 <= x <= places.width - WIDTH + 0.01
        assert -0.01 <= y <= places.height - HEIGHT + 0.01
    for one, other in itertools.combinations(places.corners, 2):
        apart = abs(one[0] - other[0]) >= WIDTH or abs(one[1] - other[1]) >= HEIGHT - 0.01
        assert apart, (one, other)


def test_what_is_needed_stands_further_to_the_right() -> None:
    places = place(3, {(0, 1), (1, 2)}, set())
    assert [x for x, _ in places.corners] == sorted({x for x, _ in places.corners})


def test_objects_that_are_alike_are_one_box() -> None:
    edges = [need(f"demo/{name}.so", "libz.so", "demo/libz.so") for name in "abc"]
    graph = draw(*edges, need("demo/d.so", "libgone.so"))
    labels = {box.label: box.detail for box in graph.boxes}
    assert labels["3 objects"] == "demo/"
    assert {"d.so", "libz.so", "libgone.so"} < labels.keys()
    assert len(graph.curves) == 2


def test_libraries_that_need_each_other_are_drawn() -> None:
    graph = draw(need("a.so", "b.so", "b.so"), need("b.so", "a.so", "a.so"))
    assert {box.label for box in graph.boxes} == {"a.so", "b.so"}
    assert len(graph.curves) == 2


def test_a_large_package_is_drawn_by_its_folders_and_keeps_what_is_missing() -> None:
    edges = [
        need(f"demo/{n % 7}/x{n}.so", f"y{m}.so", f"demo/lib/y{m}.so")
        for n in range(5_000)
        for m in range(n % 11, n % 11 + 9)
    ]
    graph = draw(*edges, need("demo/3/x3.so", "libgone.so.1"))
    assert len(graph.boxes) <= MOST_BOXES
    assert "libgone.so.1" in {box.label for box in graph.boxes}
    assert len(graph.needs) == MOST_ROWS
    assert graph.needs[0].needed == "libgone.so.1"
    assert any("45,001 needs" in line for line in graph.left_out)


def test_five_thousand_folders_of_libraries_are_bounded_too() -> None:
    graph = draw(*(need(f"d{n}/x.so", f"g{n}.so", f"e{n}/g.so") for n in range(5_000)))
    assert len(graph.boxes) <= MOST_BOXES


@pytest.mark.slow
def test_five_thousand_missing_libraries_are_bounded_too() -> None:
    graph = draw(*(need(f"d{n}/x.so", f"g{n}.so") for n in range(5_000)))
    assert len(graph.boxes) <= MOST_BOXES


def test_a_long_chain_is_drawn() -> None:
    graph = draw(*(need(f"{n}.so", f"{n + 1}.so", f"{n + 1}.so") for n in range(30)))
    assert len(graph.boxes) == 31


def file(path: str, size: int) -> Member:
    return Member(path=path, archive_name=path, size=size)


def package(*members: Member, objects: tuple[ObjectFile, ...] = ()) -> Package:
    return Package(path=Path("demo.whl"), members=members, objects=objects)


def treemap(*members: Member, objects: tuple[ObjectFile, ...] = ()) -> Treemap:
    found = draw_treemap(package(*members, objects=objects))
    assert found is not None
    return found


def test_bytes_are_shared_out_by_what_they_are_for() -> None:
    code = DeviceCode(
        kind=DeviceKind.SASS, architecture="sm_90", count=1, bytes=4_000, compressed=0
    )
    found = treemap(
        file("demo/a.so", 10_000),
        file("demo/a.debug", 2_000),
        file("demo/__init__.py", 500),
        file("demo/table.bin", 300),
        file("demo-1.0.dist-info/METADATA", 200),
        objects=(
            elf_file("demo/a.so", size=10_000, debug_bytes=1_000, device_code=(code,)),
            elf_file("demo/a.debug", size=2_000, kind=Kind.DEBUG),
        ),
    )
    assert [(share.name, share.size, share.parts) for share in found.shares] == [
        ("Native code", "5 kB", "1 file"),
        ("GPU code", "4 kB", "1 architecture"),
        ("Debug information", "3 kB", "2 files"),
        ("Python", "500 bytes", "1 file"),
        ("Data", "300 bytes", "1 file"),
        ("Metadata", "200 bytes", "1 file"),
    ]
    assert "sm_90 sass: 4 kB" in {tile.title for tile in found.tiles}


def test_relocatable_gpu_code_has_tiles_of_its_own() -> None:
    codes = tuple(
        DeviceCode(
            kind=DeviceKind.SASS,
            architecture="sm_90",
            count=1,
            bytes=2_000,
            compressed=0,
            linking=linking,
        )
        for linking in (DeviceLinking.LINKED, DeviceLinking.UNUSABLE)
    )
    found = treemap(
        file("a.so", 10_000), objects=(elf_file("a.so", size=10_000, device_code=codes),)
    )
    titles = {tile.title for tile in found.tiles}
    assert titles >= {"sm_90 sass linked: 2 kB", "sm_90 sass unusable: 2 kB"}


def test_an_object_that_claims_more_than_it_has_gets_what_there_is() -> None:
    found = treemap(file("a.so", 100), objects=(elf_file("a.so", size=100, debug_bytes=1 << 60),))
    assert [(share.name, share.size) for share in found.shares] == [
        ("Debug information", "100 bytes")
    ]


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=200))
def test_every_tile_lies_in_the_picture_and_there_are_not_too_many(sizes: list[int]) -> None:
    found = draw_treemap(package(*(file(f"d/{n}.bin", size) for n, size in enumerate(sizes))))
    if not any(sizes):
        assert found is None
        return
    assert found is not None
    assert len(found.tiles) <= 70
    for tile in found.tiles:
        assert -0.1 <= tile.x <= tile.x + tile.width <= found.width + 0.6
        assert -0.1 <= tile.y <= tile.y + tile.height <= found.height + 0.6


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (12_345_678, "12.3 MB"),
        (1 << 40, "1.1e+03 GB"),
    ],
)
def test_sizes_are_spelled_in_powers_of_a_thousand(size: int, said: str) -> None:
    assert format_size(size) == said


def test_a_long_name_loses_its_middle() -> None:
    assert shorten("libopenblas-0123456789.so", 12) == "libope…89.so"
    assert shorten("short.so", 12) == "short.so"
