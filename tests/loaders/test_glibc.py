from __future__ import annotations

import pytest

from binary_checks.checks.linkage.needed_libraries import load_order_dependent
from binary_checks.loaders import simulate
from binary_checks.model import Kind, Layout, Problem
from fixtures.linking import EXTENSION, extension, library, link, resolutions, target
from fixtures.values import symbols, wheel


def test_a_runpath_with_origin_finds_a_grafted_library() -> None:
    linkage = link(
        extension("liba.so.1", runpath=("$ORIGIN/../demo.libs",)),
        library("demo.libs/liba.so.1"),
    )
    assert resolutions(linkage) == {"liba.so.1": ("demo.libs/liba.so.1", "runpath")}
    assert linkage.edges[0].searched == ("demo.libs",)
    assert linkage.closures == ((EXTENSION, (EXTENSION, "demo.libs/liba.so.1")),)


@pytest.mark.parametrize(
    "element", ["$ORIGIN", "${ORIGIN}", "$ORIGIN/", "$ORIGIN/../demo", "$ORIGIN/./x/.."]
)
def test_origin_has_several_spellings(element: str) -> None:
    linkage = link(extension("liba.so", rpath=(element,)), library("demo/liba.so"))
    assert resolutions(linkage) == {"liba.so": ("demo/liba.so", "rpath")}


@pytest.mark.parametrize("element", ["", ".", "demo", "/demo", "$ORIGINAL", "/x/$ORIGIN"])
def test_neither_the_current_directory_nor_an_absolute_one_has_a_packages_files(
    element: str,
) -> None:
    linkage = link(extension("liba.so", runpath=("$ORIGIN/x", element)), library("demo/liba.so"))
    assert resolutions(linkage, EXTENSION) == {"liba.so": (None, "missing")}
    assert linkage.edges[0].elsewhere == ("demo/liba.so",)


def test_of_namesakes_elsewhere_the_file_of_that_name_comes_first() -> None:
    linkage = link(
        extension("liba.so.1"),
        library("demo/liba.so", name="liba.so.1"),
        library("demo/liba.so.1", name="liba.so.1"),
    )
    assert linkage.edges[0].elsewhere == ("demo/liba.so.1", "demo/liba.so")


def test_rpath_reaches_through_objects_that_have_no_path_of_their_own() -> None:
    linkage = link(
        extension("libmid.so", rpath=("$ORIGIN/libs",)),
        library("demo/libs/libmid.so", "libleaf.so"),
        library("demo/libs/libleaf.so"),
    )
    assert resolutions(linkage, "demo/libs/libmid.so") == {
        "libleaf.so": ("demo/libs/libleaf.so", "rpath")
    }


def test_an_object_adds_its_own_rpath_to_those_above_it() -> None:
    linkage = link(
        extension("libmid.so", rpath=("$ORIGIN/libs",)),
        library("demo/libs/libmid.so", "libleaf.so", "libside.so", rpath=("$ORIGIN/more",)),
        library("demo/libs/more/libleaf.so"),
        library("demo/libs/libside.so"),
    )
    assert resolutions(linkage, "demo/libs/libmid.so") == {
        "libleaf.so": ("demo/libs/more/libleaf.so", "rpath"),
        "libside.so": ("demo/libs/libside.so", "rpath"),
    }


def test_functions_of_a_python_without_data_are_not_looked_up() -> None:
    """ujson 6.1.0 for GraalPy."""
    names = symbols("PyLong_FromLong", "GraalPyTuple_GET_ITEM", "gone")
    linkage = link(extension("libc.so.6", imports=names), on=target(interpreter=None))
    assert [item.name for item in linkage.unresolved] == ["gone"]
    assert [gap.count for gap in linkage.unexplored] == [2]


def test_runpath_reaches_nobody_else() -> None:
    linkage = link(
        extension("libmid.so", runpath=("$ORIGIN/libs",)),
        library("demo/libs/libmid.so", "libleaf.so"),
        library("demo/libs/libleaf.so"),
    )
    assert resolutions(linkage, "demo/libs/libmid.so") == {"libleaf.so": (None, "missing")}


@pytest.mark.parametrize("runpath", [("$ORIGIN/nowhere",), ("",)])
def test_a_runpath_even_a_useless_one_ends_all_rpaths(runpath: tuple[str, ...]) -> None:
    linkage = link(
        extension("libmid.so", rpath=("$ORIGIN/libs",)),
        library("demo/libs/libmid.so", "libleaf.so", rpath=("$ORIGIN",), runpath=runpath),
        library("demo/libs/libleaf.so"),
    )
    assert resolutions(linkage, "demo/libs/libmid.so") == {"libleaf.so": (None, "missing")}


def test_an_ancestor_with_both_paths_hands_no_rpath_down() -> None:
    linkage = link(
        extension("libmid.so", rpath=("$ORIGIN/libs",), runpath=("$ORIGIN/libs",)),
        library("demo/libs/libmid.so", "libleaf.so"),
        library("demo/libs/libleaf.so"),
    )
    assert resolutions(linkage, "demo/libs/libmid.so") == {"libleaf.so": (None, "missing")}


def test_a_grafted_library_is_judged_through_its_user_and_is_no_root() -> None:
    linkage = link(
        extension("libblas-1a2b3c4d.so", rpath=("$ORIGIN/../demo.libs",)),
        library("demo.libs/libblas-1a2b3c4d.so", "libfortran-1a2b3c4d.so"),
        library("demo.libs/libfortran-1a2b3c4d.so"),
    )
    assert linkage.roots == (EXTENSION,)
    assert linkage.orphans == ()
    assert all(edge.resolved for edge in linkage.edges)


def test_a_loaded_soname_satisfies_what_no_path_leads_to() -> None:
    linkage = link(
        extension("liba.so.1", "libb.so", runpath=("$ORIGIN/x", "$ORIGIN/y")),
        library("demo/x/liba.so.1", name="liba.so.1"),
        library("demo/y/libb.so", "liba.so.1"),
    )
    assert resolutions(linkage, "demo/y/libb.so") == {"liba.so.1": ("demo/x/liba.so.1", "loaded")}


def test_a_loaded_file_that_the_search_finds_as_well_keeps_the_rule_of_the_search() -> None:
    linkage = link(
        extension("liba.so", "libb.so", runpath=("$ORIGIN",)),
        library("demo/liba.so"),
        library("demo/libb.so", "liba.so", runpath=("$ORIGIN",)),
    )
    assert resolutions(linkage, "demo/libb.so") == {"liba.so": ("demo/liba.so", "runpath")}


def test_a_loaded_soname_takes_the_place_of_another_file_of_the_name() -> None:
    linkage = link(
        extension("liba.so", "libb.so", runpath=("$ORIGIN/x", "$ORIGIN/y")),
        library("demo/x/liba.so", name="liba.so"),
        library("demo/y/liba.so", name="liba.so"),
        library("demo/y/libb.so", "liba.so", runpath=("$ORIGIN",)),
    )
    (edge,) = linkage.edges_of("demo/y/libb.so", "x86_64")
    assert (edge.resolved, edge.rule.value, edge.shadowed) == (
        "demo/x/liba.so",
        "loaded",
        "demo/y/liba.so",
    )


def test_what_python_has_loaded_goes_before_a_bundled_copy() -> None:
    linkage = link(extension("libc.so.6", runpath=("$ORIGIN",)), library("demo/libc.so.6"))
    assert linkage.edges[0].resolved == "system:libc.so.6"


def test_breadth_comes_before_depth() -> None:
    linkage = link(
        extension("liba.so", "libb.so", runpath=("$ORIGIN",)),
        library("demo/liba.so", "libc1.so", runpath=("$ORIGIN",)),
        library("demo/libb.so"),
        library("demo/libc1.so"),
    )
    ((_, loaded),) = linkage.closures
    assert loaded == (EXTENSION, "demo/liba.so", "demo/libb.so", "demo/libc1.so")


def test_a_file_of_another_architecture_is_passed_over() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN/x", "$ORIGIN/y")),
        library("demo/x/liba.so", architecture="i686"),
        library("demo/y/liba.so"),
    )
    assert resolutions(linkage) == {"liba.so": ("demo/y/liba.so", "runpath")}


def test_a_copy_for_newer_processors_does_not_help_the_oldest() -> None:
    linkage = link(
        extension("liba.so", runpath=("$ORIGIN",)),
        library("demo/glibc-hwcaps/x86-64-v3/liba.so"),
    )
    assert resolutions(linkage, EXTENSION) == {"liba.so": (None, "missing")}


def test_a_name_with_a_slash_is_opened_from_the_current_directory() -> None:
    linkage = link(extension("build/liba.so", runpath=("$ORIGIN",)), library("demo/build/liba.so"))
    assert resolutions(linkage, EXTENSION) == {"build/liba.so": (None, "missing")}


def test_a_name_may_begin_with_origin() -> None:
    linkage = link(extension("$ORIGIN/liba.so"), library("demo/liba.so"))
    assert resolutions(linkage) == {"$ORIGIN/liba.so": ("demo/liba.so", "path")}


def test_the_system_and_python_come_last() -> None:
    linkage = link(extension("libz.so.1", "libpython3.11.so.1.0", "libpython3.12.so.1.0"))
    assert resolutions(linkage) == {
        "libz.so.1": ("system:libz.so.1", "system"),
        "libpython3.11.so.1.0": ("python:libpython3.11.so.1.0", "python"),
        "libpython3.12.so.1.0": (None, "missing"),
    }


def test_the_library_of_an_old_python_is_the_interpreters_too() -> None:
    """cffi 1.5.0 for Python 2.7, whose interpreter is not in the data."""
    old = extension("libpython2.7.so.1.0")
    on = target(interpreter=None)
    assert resolutions(link(old, on=on)) == {
        "libpython2.7.so.1.0": ("python:libpython2.7.so.1.0", "python")
    }
    assert resolutions(link(old)) == {"libpython2.7.so.1.0": (None, "missing")}


def test_an_object_may_refuse_the_systems_folders() -> None:
    linkage = link(extension("libz.so.1", "libc.so.6", no_default_libraries=True))
    assert resolutions(linkage) == {
        "libz.so.1": (None, "missing"),
        "libc.so.6": ("system:libc.so.6", "loaded"),
    }


def test_an_executable_starts_with_nothing_loaded() -> None:
    linkage = link(
        library("bin/tool", "liba.so", kind=Kind.EXECUTABLE, rpath=("$ORIGIN/../lib",)),
        library("lib/liba.so", "libm.so.6"),
    )
    assert linkage.roots == ("bin/tool",)
    assert resolutions(linkage) == {
        "liba.so": ("lib/liba.so", "rpath"),
        "libm.so.6": ("system:libm.so.6", "system"),
    }


def test_of_several_processes_the_worst_is_told() -> None:
    linkage = link(
        extension("liba.so", "libb.so", runpath=("$ORIGIN",)),
        library("demo/_zzz.cpython-311-x86_64-linux-gnu.so", "libb.so", runpath=("$ORIGIN",)),
        library("demo/liba.so", name="liba.so"),
        library("demo/libb.so", "liba.so"),
    )
    (edge,) = linkage.edges_of("demo/libb.so", "x86_64")
    assert (edge.resolved, edge.root) == (None, "demo/_zzz.cpython-311-x86_64-linux-gnu.so")


def test_libraries_of_wheels_beside_are_in_the_same_site_packages() -> None:
    other = wheel("dep-1.0-py3-none-any.whl", objects=(library("dep/lib/libdep.so", "libno.so"),))
    linkage = link(extension("libdep.so", runpath=("$ORIGIN/../dep/lib",)), others=(other,))
    assert resolutions(linkage) == {"libdep.so": ("wheel:dep:dep/lib/libdep.so", "runpath")}


def test_a_library_that_nothing_needs_is_a_root_and_a_grafted_one_an_orphan() -> None:
    linkage = link(
        extension(),
        library("demo/plugin.so.1", "libgone.so"),
        library("demo.libs/libleft-1a2b3c4d.so", "liblost.so"),
    )
    assert linkage.roots == (EXTENSION, "demo/plugin.so.1")
    assert linkage.orphans == ("demo.libs/libleft-1a2b3c4d.so",)
    assert set(resolutions(linkage)) == {"libgone.so", "liblost.so"}


def test_a_library_asked_for_and_never_reached_is_inspected_all_the_same() -> None:
    linkage = link(extension("libcore.so"), library("demo/lib/libcore.so", "libgone.so"))
    assert linkage.roots == (EXTENSION, "demo/lib/libcore.so")
    assert resolutions(linkage, "demo/lib/libcore.so") == {"libgone.so": (None, "missing")}


def test_objects_in_a_circle_are_loaded_once() -> None:
    linkage = link(
        library("demo/liba.so", "libb.so", runpath=("$ORIGIN",)),
        library("demo/libb.so", "liba.so", runpath=("$ORIGIN",)),
    )
    assert linkage.roots == ("demo/liba.so",)
    assert all(edge.resolved for edge in linkage.edges)


def test_objects_of_another_architecture_than_the_tag_are_left_to_their_own_check() -> None:
    assert link(extension("libgone.so", architecture="aarch64"), on=target()).edges == ()


def test_a_wheel_beside_that_counts_from_another_python_lies_in_the_same_site_packages() -> None:
    ours, theirs = (Layout(site_packages=f"lib/python3.{minor}/site-packages") for minor in (11, 8))
    needer = library(ours.place("demo/liba.so"), "libdep.so", runpath=("$ORIGIN/../dep",))
    there = library(theirs.place("dep/libdep.so"), "libshare.so", rpath=("$ORIGIN/../../..",))
    outside = library("lib/libshare.so")
    other = wheel("dep-1.0-py3-none-any.whl", objects=(there, outside), layout=theirs)
    judged = wheel(objects=(needer,), layout=ours)
    linkage = simulate(judged, target(), others=(other,))
    assert resolutions(linkage) == {
        "libdep.so": (f"wheel:dep:{ours.place('dep/libdep.so')}", "runpath")
    }
    assert (
        linkage.layout.shorten_label(linkage.edges[0].resolved or "") == "wheel:dep:dep/libdep.so"
    )
    assert [edge.resolved for edge in linkage.given_edges] == ["wheel:dep:lib/libshare.so"]


def test_a_search_leads_to_what_lies_in_the_prefix_by_whatever_way() -> None:
    layout = Layout(site_packages="lib/python3.11/site-packages")
    needer = library(layout.place("demo/liba.so"), "libdep.so", runpath=("$ORIGIN/../../..",))
    linkage = simulate(wheel(objects=(needer, library("lib/libdep.so")), layout=layout), target())
    assert resolutions(linkage, layout.place("demo/liba.so")) == {
        "libdep.so": ("lib/libdep.so", "runpath")
    }


def test_sentences_name_places_as_users_know_them() -> None:
    layout = Layout(site_packages="lib/python3.11/site-packages")
    needer = library(layout.place("demo/liba.so"), "libdep.so", runpath=("$ORIGIN/../../..",))
    hidden = library("bin/libdep.so")
    package = wheel(objects=(needer, hidden), layout=layout)
    linkage = simulate(package, target())
    (finding,) = load_order_dependent(linkage, package)
    assert isinstance(finding, Problem)
    assert finding.sentence == (
        "needs libdep.so and does not find it (searched ../../../lib/): ../../../bin/libdep.so is "
        "in the package, but the search does not lead there; it loads only once something else "
        "has loaded it"
    )


def test_a_namesake_of_another_architecture_lies_nowhere() -> None:
    linkage = link(extension("liba.so"), library("other/liba.so", architecture="i686"))
    (edge,) = (edge for edge in linkage.edges if edge.needed == "liba.so")
    assert (edge.resolved, edge.elsewhere) == (None, ())
