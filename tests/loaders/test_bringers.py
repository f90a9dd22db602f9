from __future__ import annotations

import pytest

from binary_checks.knowledge.shipped_names import find_shippers
from binary_checks.loaders import simulate
from binary_checks.model import Edge, Layout, ObjectFile
from fixtures.linking import EXTENSION, dll, dylib, extension, library, macos, target, windows
from fixtures.values import member, wheel

INIT = member("demo/__init__.py")
FILE = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def bring(
    *objects: ObjectFile,
    requires: tuple[str, ...],
    file: str = FILE,
    needed: str = "",
    layout: Layout | None = None,
) -> tuple[str, ...]:
    """Which requirements may bring what the first object needs, or that one of its needs."""
    on = {"win_amd64": windows(), "macosx_11_0_arm64": macos()}.get(
        file.removesuffix(".whl").rpartition("-")[2], target()
    )
    package = wheel(file, members=(INIT,), objects=objects, layout=layout or Layout())
    edges: dict[str, Edge] = {
        edge.needed: edge
        for edge in simulate(package, on, requirements=requires).edges
        if edge.path == objects[0].path and edge.resolved is None
    }
    return edges[needed or next(iter(edges))].may_come_with


@pytest.mark.parametrize(
    ("needed", "runpath"),
    [
        ("libfoo-1a2b3c4d.so.1", "$ORIGIN/../demo.libs"),
        ("libfoo.so.1", "$ORIGIN/../demo.libs"),
        ("libfoo.so.1", "$ORIGIN/.libs"),
        ("libfoo.so.1", "$ORIGIN/lib"),
        ("libfoo.so.1", "$ORIGIN"),
        ("libfoo.so.1", "$ORIGIN/.."),
        ("libfoo.so.1", "/usr/lib"),
        ("libfoo-1a2b3c4d.so.1", "$ORIGIN/../foo.lib"),
        ("libfoo.so.1", "$ORIGIN/../../../../.."),
    ],
)
def test_no_unrelated_requirement_excuses_what_only_the_wheel_itself_has(
    needed: str, runpath: str
) -> None:
    lost = extension(needed, runpath=(runpath,))
    assert bring(lost, requires=("bar", "cffi==1.17", "attrs")) == ()


def test_a_lost_folder_of_grafted_libraries_is_excused_on_no_system() -> None:
    mac = "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"
    placed = dylib("demo/a.so", "@loader_path/.dylibs/libfoo.dylib")
    assert bring(placed, requires=("foo",), file=mac) == ()
    dos = "demo-1.0-cp311-cp311-win_amd64.whl"
    hashed = f"foo-{'1a' * 16}.dll"
    assert bring(dll("demo/a.pyd", hashed), requires=("foo",), file=dos) == ()


@pytest.mark.parametrize(
    ("runpath", "sibling"),
    [
        ("$ORIGIN/lib", "demo-addons>=1"),
        ("$ORIGIN/lib", "other==1.0"),
        ("$ORIGIN", "demo-addons==1.0"),
    ],
)
def test_a_folder_that_a_sibling_fills_is_open(runpath: str, sibling: str) -> None:
    needer = extension("libx.so.1", runpath=(runpath,))
    assert bring(needer, requires=("bar", sibling)) == (sibling.partition("=")[0].rstrip(">"),)


def test_a_distribution_that_is_only_called_alike_has_nothing_in_a_folder_of_this_one() -> None:
    # openvino requires openvino-telemetry, a pure wheel.
    file = "openvino-1.0-cp311-cp311-win_amd64.whl"
    objects = (dll("openvino/libs/a.dll", "b.dll", "OpenCL.dll"), dll("openvino/libs/c.dll"))
    for needed in ("b.dll", "OpenCL.dll"):
        assert bring(*objects, requires=("openvino-telemetry>=1",), file=file, needed=needed) == ()
        pinned = bring(*objects, requires=("openvino-runtime==1.0",), file=file, needed=needed)
        assert pinned == (("openvino-runtime",) if needed == "b.dll" else ())


def test_a_sibling_of_another_name_is_not_asked_for_what_looks_like_the_packages_own() -> None:
    # PySide6-Essentials, from which libQt6Gui.so.6 was lost, and which requires shiboken6.
    objects = (
        extension("libQt6Gui.so.6", runpath=("$ORIGIN/lib",)),
        library("demo/lib/libQt6Core.so.6"),
    )
    assert bring(*objects, requires=("shiboken6==1.0",)) == ()
    assert bring(*objects, requires=("demo-qt==1.0",)) == ("demo-qt",)
    assert bring(*objects, requires=("demo-qt>=1.0",)) == ()
    unlike = (extension("libzstd.so.1", runpath=("$ORIGIN/lib",)), objects[1])
    assert bring(*unlike, requires=("shiboken6==1.0",)) == ()
    assert bring(*unlike, requires=("demo-qt==1.0",)) == ("demo-qt",)


def test_a_requirement_of_the_name_is_not_asked_for_what_lay_in_a_folder_that_was_lost() -> None:
    # ortools requires absl-py, and its own libabsl_base.so lies in ortools/.libs.
    for runpath in ("$ORIGIN/.libs", "$ORIGIN/../demo.libs", "$ORIGIN/lib"):
        needer = extension("libabsl_base.so", "libother.so", runpath=(runpath,))
        for needed in ("libabsl_base.so", "libother.so"):
            assert bring(needer, requires=("absl-py",), needed=needed) == ()
    kept = library("demo/.libs/libother.so")
    needer = extension("libabsl_base.so", runpath=("$ORIGIN/.libs",))
    assert bring(needer, kept, requires=("absl-py",)) == ("absl-py",)
    kept = library("demo/.libs/libabsl_log.so")
    assert bring(needer, kept, requires=("absl-py",)) == ()


def test_a_lost_folder_is_excused_by_no_other_folder_that_is_searched() -> None:
    # pennylane-lightning looks in scipy_openblas32/lib too.
    runpath = ("$ORIGIN/../scipy_openblas32/lib", "$ORIGIN/../demo.libs")
    for needed in ("libgomp-870cb1d0.so.1", "libgomp.so.1"):
        assert bring(extension(needed, runpath=runpath), requires=("scipy-openblas32",)) == ()
    kept = library("demo.libs/libother.so")
    theirs = extension("libscipy_openblas.so", runpath=runpath)
    assert bring(theirs, kept, requires=("scipy-openblas32",)) == ("scipy-openblas32",)
    grafted = extension("libgomp-870cb1d0.so.1", runpath=runpath)
    assert bring(grafted, kept, requires=("scipy-openblas32",)) == ()


def test_a_distribution_of_the_same_beginning_has_no_grafted_library() -> None:
    file = "qiskit_aer-1.0-cp311-cp311-win_amd64.whl"
    hashed = f"msvcp140-{'1a' * 16}.dll"
    assert bring(dll("qiskit_aer/a.pyd", hashed), requires=("qiskit",), file=file) == ()


@pytest.mark.parametrize(
    ("runpath", "bringers"),
    [
        ("$ORIGIN/../other/lib", ("other",)),
        ("$ORIGIN/../other_data/lib", ("other",)),
        ("$ORIGIN/../whose/lib", ("other", "some")),
        ("$ORIGIN/../other.libs", ("other",)),
    ],
)
def test_a_folder_of_another_distribution_is_its_own(
    runpath: str, bringers: tuple[str, ...]
) -> None:
    needer = extension("libx.so.1", runpath=(runpath,))
    assert bring(needer, requires=("other>=2", "some", "numpy")) == bringers


def test_a_grafted_library_may_lie_in_the_other_distribution_that_the_path_names() -> None:
    needer = extension("libx-1a2b3c4d.so.1", runpath=("$ORIGIN/../other.libs", "$ORIGIN/../that"))
    assert bring(needer, requires=("other", "some")) == ("other",)


def test_the_environments_own_folder_is_filled_by_few() -> None:
    layout = Layout(site_packages="lib/python3.11/site-packages")
    needer = library(layout.place("demo/liba.so"), "libx.so.1", runpath=("$ORIGIN/../../..",))
    assert bring(needer, requires=("intel-openmp", "mkl", "attrs"), layout=layout) == (
        "intel-openmp",
        "mkl",
    )


def test_nvidias_folders_hold_nvidias_libraries_alone() -> None:
    needer = extension("libnvx.so.1", "libown.so", runpath=("$ORIGIN/../nvidia/cu13/lib",))
    requires = ("nvidia-nvx", "nvidia-other", "triton")
    assert bring(needer, requires=requires, needed="libown.so") == ()
    assert bring(needer, requires=requires, needed="libnvx.so.1") == ("nvidia-nvx",)


def test_what_needs_one_library_of_a_distribution_may_need_another_of_it() -> None:
    needer = extension("libcasadi.so.3.7", "libipopt.so.3")
    assert bring(needer, requires=("casadi", "attrs"), needed="libipopt.so.3") == ("casadi",)
    assert bring(extension("libipopt.so.3"), requires=("casadi", "attrs")) == ()


def test_all_that_torch_has_is_known_by_name() -> None:
    needer = extension("libtorch_cpu.so", "libc10.so", "libssl.so.10", "libcudart.so.13")
    for needed, bringers in (
        ("libtorch_cpu.so", ("torch",)),
        ("libc10.so", ("torch",)),
        ("libcudart.so.13", ("torch",)),
        ("libssl.so.10", ()),
    ):
        assert bring(needer, requires=("torch==2.13.0",), needed=needed) == bringers


@pytest.mark.parametrize(
    ("needed", "requirements", "found"),
    [
        ("libcudnn.so.9", ("numpy", "nvidia-cudnn-cu13"), ("nvidia-cudnn-cu13",)),
        ("libcudnn_ops.so.9", ("nvidia-cudnn-cu13",), ("nvidia-cudnn-cu13",)),
        ("libcublas.so.13", ("nvidia-a", "nvidia-b", "torch"), ("nvidia-a", "nvidia-b")),
        ("libQt6Core.so.6", ("pyqt6-qt6", "pyqt6-sip"), ("pyqt6-qt6",)),
        ("@rpath/libmlx.dylib", ("mlx-metal",), ("mlx-metal",)),
        ("glew32.dll", ("kivy-deps-glew", "kivy-deps-sdl2"), ("kivy-deps-glew",)),
        ("SDL2.dll", ("kivy-deps-glew", "kivy-deps-sdl2"), ("kivy-deps-sdl2",)),
        ("libtbb.so.12", ("tbb-devel", "tbb"), ("tbb",)),
        ("libimf.so", ("intel-cmplr-lib-ur",), ()),
        ("libcufft.so.12", ("numpy", "cuda-pathfinder"), ("cuda-pathfinder",)),
        ("libcuda_x.so.1", ("nvidia-cuda-runtime",), ()),
        ("libqt.so", ("a-qt", "b-qt"), ()),
        ("_ops.so", ("nvidia-cudnn-cu13",), ()),
        ("libcudnn-1a2b3c4d.so.9", ("nvidia-cudnn-cu13",), ()),
    ],
)
def test_a_library_is_called_after_the_distribution_that_has_it(
    needed: str, requirements: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert find_shippers(needed, requirements) == found


def test_what_is_found_needs_nobody() -> None:
    objects = (extension("libx.so", runpath=("$ORIGIN",)), library("demo/libx.so"))
    package = wheel(FILE, objects=objects)
    (edge,) = simulate(package, target(), requirements=("x",)).edges_of(EXTENSION, "x86_64")
    assert (edge.resolved, edge.may_come_with) == ("demo/libx.so", ())
