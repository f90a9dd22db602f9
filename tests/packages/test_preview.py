"""The first look at a wheel says what is in it, and leaves source code to who reads it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.model import Format, Wheel
from binary_checks.packages import open_package, preview
from fixtures.build_wheel import build_wheel
from fixtures.fake_reader import FakeReader

ELF = b"\x7fELF" + bytes(200)


def test_a_preview_names_the_formats_that_occur(tmp_path: Path) -> None:
    with_object = build_wheel(tmp_path, members={"demo/a": ELF, "demo/b.py": ""})
    assert preview(with_object, FakeReader()).formats == {Format.ELF}
    assert preview(with_object, FakeReader()).kind is Wheel
    pure = build_wheel(tmp_path, tags=("py3-none-any",), members={"demo/a.so": "text"})
    assert preview(pure, FakeReader()).formats == frozenset()


@pytest.mark.parametrize("size", [4, 2_000_000])
def test_an_object_under_the_name_of_source_code_is_told_by_who_reads_it(
    tmp_path: Path, size: int
) -> None:
    built = build_wheel(tmp_path, members={"demo/a.py": b"\x7fELF".ljust(size)})
    assert preview(built, FakeReader()).formats == frozenset()
    package = open_package(built, FakeReader())
    place = package.layout.place("demo/a.py")
    (member,) = (member for member in package.members if member.path == place)
    assert member.faults == ("its name is that of source code, but its first bytes are ELF",)
    assert [each.path for each in package.objects] == [place]
