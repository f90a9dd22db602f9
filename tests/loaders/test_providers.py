from __future__ import annotations

import pytest

from binary_checks.knowledge.library_names import find_shippers
from binary_checks.loaders import simulate
from binary_checks.model import Edge, Layout, Linkage, ObjectFile
from fixtures.linking import (
    EXTENSION,
    dll,
    dylib,
    extension,
    library,
    macos,
    system_library,
    target,
    windows,
)
from fixtures.values import member, symbols, wheel

INIT = member("demo/__init__.py")
FILE = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def bring(
    *objects: ObjectFile,
    requires: tuple[str, ...],
    file: str = FILE,
    needed: str = "",
    layout: Layout | None = None,
) -> tuple[str, ...]:
    """Return the requirements that may provide what the first object, or its needs, lack."""
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
    # PySide6-Essentials without its libQt6Gui.so.6; it requires shiboken6.
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
    # ortools requires absl-py, and needs libabsl_base.so in its own ortools/.libs.
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
    # pennylane-lightning searches scipy_openblas32/lib too.
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
        ("libgomp.so.1", ("numpy", "torch"), ("torch",)),
        ("libgomp-1a2b3c4d.so.1", ("torch",), ()),
        ("libcudnn_ops.so.9", ("nvidia-cudnn-cu13",), ("nvidia-cudnn-cu13",)),
        ("libcublas.so.13", ("nvidia-a", "nvidia-b", "torch"), ("nvidia-a", "nvidia-b")),
        ("libQt6Core.so.6", ("pyqt6-qt6", "pyqt6-sip"), ("pyqt6-qt6",)),
        ("@rpath/libmlx.dylib", ("mlx-metal",), ("mlx-metal",)),
        ("libeckit_mpi.so", ("eckitlib", "numpy"), ("eckitlib",)),
        ("glew32.dll", ("kivy-deps-glew", "kivy-deps-sdl2"), ("kivy-deps-glew",)),
        ("SDL2.dll", ("kivy-deps-glew", "kivy-deps-sdl2"), ("kivy-deps-sdl2",)),
        ("libtbb.so.12", ("tbb-devel", "tbb"), ("tbb",)),
        ("libimf.so", ("intel-cmplr-lib-ur",), ()),
        ("libcufft.so.12", ("numpy", "cuda-pathfinder"), ("cuda-pathfinder",)),
        ("libcuda_x.so.1", ("nvidia-cuda-runtime",), ()),
        ("libqt.so", ("a-qt", "b-qt"), ()),
        ("@rpath/libz3.dylib", ("z3-solver", "numpy"), ("z3-solver",)),
        ("libz.so.1", ("z-solver",), ()),
        ("hdf5.dll", ("h5py",), ("h5py",)),
        ("libhdf5.so.200", ("h5py",), ()),
        ("cuTENSOR.dll", ("cuda-pathfinder",), ("cuda-pathfinder",)),
        ("_ops.so", ("nvidia-cudnn-cu13",), ()),
        ("libcudnn-1a2b3c4d.so.9", ("nvidia-cudnn-cu13",), ()),
    ],
)
def test_a_library_is_called_after_the_distribution_that_has_it(
    needed: str, requirements: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert find_shippers(needed, requirements) == found


SYSTEMS = ("libEGL.so.1", "libX11-xcb.so.1", "libxkbcommon.so.0", "libudev.so.1", "libidn2.so.0")


@pytest.mark.parametrize("needed", SYSTEMS)
def test_a_library_that_systems_have_is_no_sibling_s(needed: str) -> None:
    # PyQt6 requires pyqt6-qt6, which fills PyQt6/Qt6/lib; a server has no libEGL.so.1.
    needer = extension(needed, "libx.so.1", runpath=("$ORIGIN/lib",))
    assert bring(needer, requires=("demo-addons==1.0",), needed="libx.so.1") == ("demo-addons",)
    assert bring(needer, requires=("demo-addons==1.0",), needed=needed) == ()


def test_a_distribution_may_have_the_library_of_a_system_that_it_is_called_after() -> None:
    assert bring(extension("libusb-1.0.so.0"), requires=("libusb-package",)) == ("libusb-package",)
    assert bring(extension("libusb-1.0.so.0"), requires=("casadi",)) == ()


def test_a_folder_of_site_packages_that_is_called_lib_is_no_distributions() -> None:
    # open3d searches there too, and requires dash and flask.
    needer = extension("libx.so.1", runpath=("$ORIGIN/../lib",))
    assert bring(needer, requires=("dash", "flask")) == ()
    assert bring(needer, requires=("dash", "demo-lib")) == ("demo-lib",)


def test_what_has_exactly_the_name_of_a_requirement_is_its_library() -> None:
    # openvino_tokenizers requires openvino~=2026.4.1.dev, and imports it first.
    file = "demo_tokens-1.0-py3-none-manylinux_2_17_x86_64.whl"
    for needed, bringers in (("libdemo.so.2641", ("demo",)), ("libdemo_more.so", ())):
        kept = library("demo/lib/libdemo_tokens.so", needed, runpath=("$ORIGIN",))
        assert bring(kept, requires=("demo~=1.0",), file=file) == bringers


def test_the_suffix_of_a_distribution_for_one_cuda_does_not_hide_its_library() -> None:
    # cudf-cu12 has libraries with similar names, and requires libcudf-cu12.
    file = "demo_cu12-1.0-cp311-abi3-manylinux_2_17_x86_64.whl"
    objects = (
        extension("libdemo.so", runpath=("$ORIGIN",)),
        library("demo/libdemo_strings.so", name="libdemo_strings.so"),
    )
    assert bring(*objects, requires=("libdemo-cu12", "numpy"), file=file) == ("libdemo-cu12",)
    assert bring(*objects, requires=("numpy",), file=file) == ()


def test_what_lies_in_the_environments_lib_may_need_what_a_sibling_puts_there() -> None:
    # libsycl.so of intel-sycl-rt has no search path; libimf.so of intel-cmplr-lib-rt is next to it.
    layout = Layout(site_packages="lib/python3.11/site-packages")
    file = "intel_sycl_rt-1.0-py3-none-manylinux_2_17_x86_64.whl"
    requires = ("intel-cmplr-lib-rt==1.0", "numpy")
    needer = library("lib/libsycl.so", "libimf.so")
    found = bring(needer, requires=requires, file=file, layout=layout)
    assert found == ("intel-cmplr-lib-rt",)
    inside = library("lib/python3.11/site-packages/demo/libsycl.so", "libimf.so")
    assert bring(inside, requires=requires, file=file, layout=layout) == ()


@pytest.mark.parametrize(
    ("file", "needed", "bringers"),
    [
        ("PyQtWebEngine_Qt5-5.15.2-py3-none-win_amd64.whl", "Qt5Core.dll", ("pyqt5-qt5",)),
        ("PyQtWebEngine_Qt5-5.15.2-py3-none-win_amd64.whl", "MSVCP140.dll", ("pyqt5-qt5",)),
        ("PyQtWebEngine_Qt5-5.15.2-py3-none-win_amd64.whl", "Qt5WebEngineCore.dll", ()),
        ("PyQtWebEngine_Qt5-5.15.2-py3-none-win_amd64.whl", "zlib.dll", ()),
        ("pyqt6_3d_qt6-6.11.0-py3-none-win_amd64.whl", "Qt6Gui.dll", ("pyqt6-qt6",)),
        ("pyqt6_3d_qt6-6.11.0-py3-none-win_amd64.whl", "Qt63DCore.dll", ()),
        ("pyqt6_qt6-6.11.0-py3-none-win_amd64.whl", "Qt6Core.dll", ()),
        ("demo-1.0-py3-none-win_amd64.whl", "Qt6Core.dll", ()),
    ],
)
def test_a_part_of_qt_is_installed_beside_qt_itself(
    file: str, needed: str, bringers: tuple[str, ...]
) -> None:
    assert bring(dll("Qt/bin/a.dll", needed), requires=(), file=file) == bringers


def simulate_for_others(path: str, *imports: str, requires: tuple[str, ...]) -> Linkage:
    """Simulate a library that names no other, and that no module of its package needs."""
    item = library(path, imports=symbols(*imports))
    layout = Layout(site_packages="lib/python3.11/site-packages")
    package = wheel(FILE, objects=(item,), layout=layout)
    cxx = {"libstdc++.so.6": system_library("libstdc++.so.6", _ZSt4cout="")}
    system = target(library_data={**target().library_data, **cxx})
    return simulate(package, system, requirements=requires)


def test_symbols_in_the_namespace_of_a_requirement_may_be_its() -> None:
    # libonedal.so.4 of daal uses tbb::detail without naming libtbb.so.12.
    names = ("_ZN3tbb6detail2r15spawnEv", "_ZN4mine3runEv")
    linkage = simulate_for_others("lib/libonedal.so.4", *names, requires=("tbb==2023.*",))
    assert [item.name for item in linkage.unresolved] == ["_ZN4mine3runEv"]
    assert [(item.path, item.count) for item in linkage.unexplored] == [("lib/libonedal.so.4", 1)]
    without = simulate_for_others("lib/libonedal.so.4", *names, requires=("numpy",))
    assert len(without.unresolved) == 2


def test_a_library_for_other_packages_may_use_the_standard_library_that_these_load() -> None:
    linkage = simulate_for_others("lib/libonedal.so.4", "_ZSt4cout", "_ZSt9undefined", requires=())
    assert [item.name for item in linkage.unresolved] == ["_ZSt9undefined"]
    assert linkage.unexplored[0].reason == (
        "libstdc++.so.6 defines them, but the file does not name this library"
    )
    inside = "lib/python3.11/site-packages/demo/libdemo.so"
    own = simulate_for_others(inside, "_ZSt4cout", requires=())
    assert [item.name for item in own.unresolved] == ["_ZSt4cout"]


def test_what_is_found_needs_nobody() -> None:
    objects = (extension("libx.so", runpath=("$ORIGIN",)), library("demo/libx.so"))
    package = wheel(FILE, objects=objects)
    (edge,) = simulate(package, target(), requirements=("x",)).edges_of(EXTENSION, "x86_64")
    assert (edge.resolved, edge.may_come_with) == ("demo/libx.so", ())
