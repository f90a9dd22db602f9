"""The directories of a package are known without storing each of them."""

from __future__ import annotations

import tracemalloc

from binary_checks.model import Directories, directories
from fixtures.values import elf_file, member, wheel


def test_a_package_has_the_directories_of_its_files_and_all_above_them() -> None:
    package = wheel(members=[member("demo/lib/a.txt")], objects=[elf_file("demo.libs/liba.so")])
    found = directories(package)
    assert all(each in found for each in ("", "demo", "demo/lib", "demo.libs"))
    assert all(each not in found for each in ("de", "demo/li", "demo/lib/a.txt", "lib", "/"))


def test_the_top_and_what_lies_outside_are_found_if_there_are_files() -> None:
    assert "" not in Directories(())
    assert "" in Directories(["a.py"])
    found = Directories(["../../../bin/tool"])
    assert "../../../bin" in found
    assert "../.." in found
    assert "../../../lib" not in found


def test_a_name_of_64000_characters_costs_what_it_is_long() -> None:
    paths = [f"{number}/{'a/' * 31_990}x.so" for number in range(10)]
    tracemalloc.start()
    try:
        found = Directories(paths)
        assert f"5/{'a/' * 20_000}a" in found
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * sum(map(len, paths))
