"""The contract of every store, tested for each kind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet.store import Store, Stored, open_store


def test_what_is_there_is_never_changed_be_it_a_files_content_or_empty(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "facts").write_bytes(b"x" * 3_000_000)
    assert store.create("facts/aa/aa.json.gz", tmp_path / "facts")
    assert not store.create("facts/aa/aa.json.gz", b"second")
    assert store.read("facts/aa/aa.json.gz") == b"x" * 3_000_000
    assert store.create("channels/nightly/numpy/numpy.whl.aa", b"")
    assert not store.create("channels/nightly/numpy/numpy.whl.aa", b"second")
    assert store.read("channels/nightly/numpy/numpy.whl.aa") == b""


def test_what_is_not_there_reads_as_nothing(store: Store) -> None:
    assert store.read("facts/aa/aa.json.gz") is None
    store.create("facts/aa/aa.json.gz", b"")
    assert store.read("facts/aa/aa.json.gz/below") is None
    assert store.read("facts/aa") is None


def test_names_are_sorted_as_whole_names_and_have_sizes(store: Store) -> None:
    given = ["facts/a/b", "facts/a-b/c", "facts/a.b", "facts/a+/x", "facts/ab", "facts/B"]
    for number, name in enumerate(given):
        store.create(name, b"x" * number)
    sizes = {name: number for number, name in enumerate(given)}
    assert list(store.names("facts/")) == [
        Stored(name=name, size=sizes[name]) for name in sorted(given)
    ]


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("night=2026-11-2", ["night=2026-11-20/plan.json", "night=2026-11-21/plan.json"]),
        ("night=2026-11-20/", ["night=2026-11-20/plan.json"]),
        ("night=2026-11-20/pl", ["night=2026-11-20/plan.json"]),
        ("night=2026-11-20/plan.json", ["night=2026-11-20/plan.json"]),
        ("night=2026-12", []),
        ("night=2026-11-20/plan.json/", []),
        ("channels/", []),
    ],
)
def test_a_prefix_need_not_end_with_a_part(store: Store, prefix: str, found: list[str]) -> None:
    store.create("night=2026-11-20/plan.json", b"")
    store.create("night=2026-11-21/plan.json", b"")
    assert [each.name for each in store.names(prefix)] == found


def test_folders_are_what_names_have_up_to_the_next_slash(store: Store) -> None:
    for night in ("2026-11-21", "2026-11-20"):
        for name in ("plan.json", "results/a.cpu1.json", "results/b.cpu1.json"):
            store.create(f"night={night}/{name}", b"")
    assert list(store.folders("night=")) == ["night=2026-11-20/", "night=2026-11-21/"]
    assert list(store.folders("night=2026-11-20/")) == ["night=2026-11-20/results/"]
    assert list(store.folders("night=2026-11-20/results/")) == []
    assert list(store.folders("")) == ["night=2026-11-20/", "night=2026-11-21/"]


def test_what_is_deleted_is_gone_and_deleting_it_again_is_no_error(store: Store) -> None:
    store.create("night=2026-11-20/running/a.cpu1.log", b"a")
    store.create("night=2026-11-20/running/b.cpu1.log", b"b")
    for _ in range(2):
        store.delete("night=2026-11-20/running/a.cpu1.log")
    assert [each.name[-10:] for each in store.names("night=")] == ["b.cpu1.log"]
    store.delete("night=2026-11-20/running/b.cpu1.log")
    assert list(store.names("night=")) == []
    assert store.create("night=2026-11-20/running/b.cpu1.log", b"again")


def test_an_object_is_a_file_of_this_host_if_it_is_there(store: Store) -> None:
    store.create("night=2026-11-20/cells.parquet", b"PAR1")
    for _ in range(2):
        with store.local("night=2026-11-20/cells.parquet") as path:
            assert path.read_bytes() == b"PAR1"
    reason = r"night=2026-11-20/checks\.parquet: cannot be read"
    with pytest.raises(StoreError, match=reason), store.local("night=2026-11-20/checks.parquet"):
        raise AssertionError


def test_an_object_comes_in_pieces(store: Store) -> None:
    content = bytes(range(256)) * 20_000
    store.create("facts/aa/aa.json.gz", content)
    store.create("facts/aa/empty", b"")
    pieces = list(store.pieces("facts/aa/aa.json.gz"))
    assert b"".join(pieces) == content
    assert len(pieces) > 1
    assert list(store.pieces("facts/aa/empty")) == []
    with pytest.raises(StoreError, match="cannot be read"):
        list(store.pieces("facts/aa/absent"))


HOSTILE = [
    "",
    "/etc/passwd",
    "../outside",
    "facts/../../outside",
    "facts//aa",
    "facts/aa/",
    "facts/./aa",
    "facts/a\0b",
    "facts/a\nb",
    "facts\\aa",
    "C:/aa",
    "facts/aa:stream",
    "facts/NUL",
    "facts/nul.txt",
    "facts/COM1.json",
    "facts/LPT9",
    "facts/aa.",
    "facts/aa ",
    "facts/.partial",
    "facts/\N{LATIN SMALL LETTER E WITH ACUTE}",
    f"facts/{'x' * 201}",
    "/".join(["facts"] * 200),
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_that_leads_elsewhere_is_refused(store: Store, name: str) -> None:
    def stored() -> None:
        with store.local(name):
            pass

    asked: list[Callable[[], object]] = [
        lambda: store.create(name, b""),
        lambda: store.read(name),
        lambda: store.delete(name),
        lambda: store.replace(f"simple/{name}", b""),
        lambda: store.repeat(f"conda/{name}", "store.json"),
        stored,
    ]
    for ask in asked:
        with pytest.raises(StoreError, match="not a valid name in a store"):
            ask()


@pytest.mark.parametrize("prefix", ["../", "/", "facts/../", "facts/\0", ".", "facts/.p", "a\\"])
def test_a_prefix_that_leads_elsewhere_is_refused(store: Store, prefix: str) -> None:
    with pytest.raises(StoreError, match="name"):
        list(store.names(prefix))
    with pytest.raises(StoreError, match="name"):
        list(store.folders(prefix))


def test_of_16_threads_that_write_one_name_one_wins(store: Store) -> None:
    contents = [bytes([each]) * 100_000 for each in range(16)]
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda content: store.create("facts/aa/aa", content), contents))
    assert won.count(True) == 1
    assert store.read("facts/aa/aa") == contents[won.index(True)]


def test_an_index_is_replaced(store: Store) -> None:
    for content in (b"first", b"second, and longer", b"3"):
        store.replace("simple/release/demo/index.html", content)
        assert store.read("simple/release/demo/index.html") == content
    assert [each.name for each in store.names("simple/")] == ["simple/release/demo/index.html"]


def test_an_index_repeats_a_package_without_fetching_it(store: Store) -> None:
    store.create("files/demo/aa/demo.conda", b"the package")
    for _ in range(2):
        store.repeat("conda/release/noarch/demo.conda", "files/demo/aa/demo.conda")
    assert store.read("conda/release/noarch/demo.conda") == b"the package"
    store.delete("conda/release/noarch/demo.conda")
    assert store.read("files/demo/aa/demo.conda") == b"the package"
    with pytest.raises(StoreError, match="cannot be"):
        store.repeat("conda/release/noarch/demo.conda", "files/demo/aa/absent.conda")
    assert list(store.names("conda/")) == []


@pytest.mark.parametrize(
    "name",
    [
        "packages/aa/aa/a.whl",
        "channels/release/demo/a.whl",
        "store.json",
        "facts/aa/a.json.gz",
        "night=2026-11-20/plan.json",
        "simple",
        "simpler/index.html",
        "condas/a.json",
    ],
)
def test_nothing_but_an_index_is_ever_replaced(store: Store, name: str) -> None:
    before = store.read(name)
    with pytest.raises(StoreError, match="objects of this name are never replaced"):
        store.replace(name, b"")
    with pytest.raises(StoreError, match="objects of this name are never replaced"):
        store.repeat(name, "store.json")
    assert store.read(name) == before


def test_readers_of_an_index_never_see_half_of_it(store: Store) -> None:
    contents = [bytes([each]) * 200_000 for each in range(8)]
    store.replace("simple/a/index.html", contents[0])
    with ThreadPoolExecutor(8) as pool:
        written = [pool.submit(store.replace, "simple/a/index.html", each) for each in contents * 3]
        seen = [store.read("simple/a/index.html") for _ in range(30)]
        assert all(each.result() is None for each in written)
    assert all(each in contents for each in seen)
    assert store.read("simple/a/index.html") in contents


def test_the_same_store_is_opened_again_and_none_is_not_an_empty_one(
    store: Store, url: str
) -> None:
    store.create("facts/aa/aa", b"a")
    assert open_store(url).read("facts/aa/aa") == b"a"
    assert open_store(url, make=True).read("facts/aa/aa") == b"a"
    with pytest.raises(StoreError, match=r"not a store: it has no store\.json"):
        open_store(f"{url}/elsewhere")


@pytest.mark.slow
def test_deep_prefixes_with_10_000_names_are_listed_whole(store: Store) -> None:
    names = sorted(f"facts/{n % 7}/{n % 11}/a/b/c/d/{n:05}.json" for n in range(10_000))
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(lambda name: store.create(name, b""), names))
    assert [each.name for each in store.names("facts/")] == names
    below = [name for name in names if name.startswith("facts/3/4/")]
    assert [each.name for each in store.names("facts/3/4/")] == below
    assert len(list(store.folders("facts/3/"))) == 11
