from __future__ import annotations

import pytest

from binary_checks.model import Layout

LINUX = Layout(site_packages="lib/python3.11/site-packages")
WINDOWS = Layout(site_packages="Lib/site-packages", scripts="Scripts", python="")


@pytest.mark.parametrize(
    ("layout", "in_prefix", "shown"),
    [
        (LINUX, "lib/python3.11/site-packages/torch/lib/x.so", "torch/lib/x.so"),
        (LINUX, "bin/x", "../../../bin/x"),
        (LINUX, "lib/libx.so", "../../../lib/libx.so"),
        (LINUX, "lib/python3.11/x.py", "../x.py"),
        (LINUX, "", "../../.."),
        (LINUX, "lib/python3.11/site-packages", ""),
        (LINUX, "../x", "../../../../x"),
        (LINUX, "/usr/lib/x.so", "/usr/lib/x.so"),
        (WINDOWS, "Lib/site-packages/demo/x.pyd", "demo/x.pyd"),
        (WINDOWS, "Scripts/x.exe", "../../Scripts/x.exe"),
        (Layout(), "lib/libtorch.so", "lib/libtorch.so"),
        (Layout(), "../x", "../x"),
    ],
)
def test_a_path_is_shown_as_it_counts_from_site_packages_and_back(
    layout: Layout, in_prefix: str, shown: str
) -> None:
    assert layout.shorten(in_prefix) == shown
    assert layout.place(shown) == in_prefix


@pytest.mark.parametrize("odd", ["a//b", "./a", "a/../b", "a\\b", "C:\\x", "demo/", "a b"])
def test_what_is_odd_about_a_path_stays_for_checks_to_judge(odd: str) -> None:
    assert LINUX.place(odd) == f"lib/python3.11/site-packages/{odd}"
    assert LINUX.shorten(LINUX.place(odd)) == odd


def test_only_what_lies_in_site_packages_is_inside_however_it_is_spelled() -> None:
    assert LINUX.inside("lib/python3.11/site-packages/demo/x.py") == "demo/x.py"
    assert LINUX.inside("lib/python3.11/site-packages") == ""
    assert LINUX.inside("lib/python3.11/site-packages-old/x.py") is None
    assert LINUX.inside("bin/x") is None
    assert Layout().inside("bin/x") == "bin/x"
    assert Layout().inside("../x") is None
    assert LINUX.place("../../libx.so") == LINUX.place("../../../lib/libx.so") == "lib/libx.so"


def test_a_label_is_shortened_where_it_names_a_path() -> None:
    for same in ("system:libc.so.6", "python:bin/python", "wheel:dep:/x"):
        assert LINUX.shorten_label(same) == same
    label = f"wheel:a:{LINUX.site_packages}/a/b:c.so"
    assert LINUX.shorten_label(label) == "wheel:a:a/b:c.so"
    assert [*map(LINUX.shorten_label, ("wheel", "system"))] == ["../../../wheel", "../../../system"]
