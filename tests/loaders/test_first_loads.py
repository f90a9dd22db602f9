from __future__ import annotations

from binary_checks.loaders import simulate
from binary_checks.model import Kind, Linkage, ObjectFile, Package, TargetSystem
from fixtures.linking import dll, dylib, extension, library, macos, resolutions, target, windows
from fixtures.values import symbols, wheel

MODULE = "demo/_native.cpython-311-x86_64-linux-gnu.so"
TORCH = wheel(
    "torch-2.0-cp311-cp311-manylinux_2_17_x86_64.whl",
    objects=(
        library("torch/_C.so", "libtorch.so", runpath=("$ORIGIN/lib",)),
        library("torch/lib/libtorch.so", "libc10.so", name="libtorch.so", runpath=("$ORIGIN",)),
        library("torch/lib/libc10.so", name="libc10.so", exports=symbols("c10_fill")),
    ),
)
IMPORTED = ("torch/_C.so",)


def load(
    *objects: ObjectFile,
    first: tuple[str, ...] = IMPORTED,
    others: tuple[Package, ...] = (TORCH,),
    on: TargetSystem | None = None,
) -> Linkage:
    """Load objects after Python has loaded others before each of them."""
    loads = {item.path: first for item in objects}
    return simulate(wheel(objects=objects), on or target(), others=others, first_loads=loads)


def test_what_code_loads_first_is_found_with_all_that_it_needs() -> None:
    assert resolutions(load(extension("libtorch.so", "libc10.so"))) == {
        "libtorch.so": ("wheel:torch:torch/lib/libtorch.so", "loaded-first"),
        "libc10.so": ("wheel:torch:torch/lib/libc10.so", "loaded-first"),
    }


def test_without_it_nothing_is_found() -> None:
    assert resolutions(load(extension("libc10.so"), first=())) == {"libc10.so": (None, "missing")}


def test_symbols_are_looked_up_in_it() -> None:
    fits = extension("libc10.so", imports=symbols("c10_fill"))
    assert load(fits).unresolved == ()
    fails = extension("libc10.so", imports=symbols("c10_gone"))
    assert [item.name for item in load(fails).unresolved] == ["c10_gone"]


def test_it_comes_before_what_a_search_path_leads_to() -> None:
    objects = (
        extension("libc10.so", runpath=("$ORIGIN",)),
        library("demo/libc10.so", name="libc10.so"),
    )
    (edge,) = load(*objects).edges_of(MODULE, "x86_64")
    assert edge.resolved == "wheel:torch:torch/lib/libc10.so"
    assert edge.shadowed == "demo/libc10.so"


def test_its_symbols_are_in_scope_only_where_the_library_is_needed() -> None:
    (unresolved,) = load(extension(imports=symbols("c10_fill"))).unresolved
    assert unresolved.elsewhere == "wheel:torch:torch/lib/libc10.so"


def test_an_executable_is_a_process_of_its_own() -> None:
    program = library("demo/tool", "libc10.so", kind=Kind.EXECUTABLE)
    assert resolutions(load(program)) == {"libc10.so": (None, "missing")}


def test_a_library_of_the_package_itself_may_be_loaded_first() -> None:
    objects = (extension("libx.so"), library("demo/lib/libx.so", name="libx.so"))
    linkage = load(*objects, first=("demo/lib/libx.so",), others=())
    assert resolutions(linkage, MODULE) == {"libx.so": ("demo/lib/libx.so", "loaded-first")}


def test_what_an_object_needs_is_loaded_first_for_what_that_needs_too() -> None:
    objects = (
        extension("libx.so", runpath=("$ORIGIN",)),
        library("demo/libx.so", "libc10.so", name="libx.so"),
    )
    (edge,) = load(*objects).edges_of("demo/libx.so", "x86_64")
    assert edge.rule.value == "loaded-first"


def test_dyld_finds_what_is_loaded_under_its_install_name() -> None:
    other = wheel(
        "torch-2.0-cp311-cp311-macosx_11_0_arm64.whl",
        objects=(
            dylib("torch/_C.so", "@loader_path/lib/libc10.dylib"),
            dylib("torch/lib/libc10.dylib"),
        ),
    )
    needed = "@rpath/libc10.dylib"
    linkage = load(dylib("demo/a.so", needed), others=(other,), on=macos())
    assert resolutions(linkage) == {needed: ("wheel:torch:torch/lib/libc10.dylib", "loaded-first")}
    by_place = "@loader_path/libc10.dylib"
    linkage = load(dylib("demo/a.so", by_place), others=(other,), on=macos())
    assert resolutions(linkage) == {by_place: (None, "missing")}


def test_windows_finds_what_is_loaded_by_its_file_name() -> None:
    other = wheel(
        "torch-2.0-cp311-cp311-win_amd64.whl",
        objects=(dll("torch/_C.pyd", "c10.dll"), dll("torch/c10.dll")),
    )
    first = ("torch/_C.pyd",)
    linkage = load(dll("demo/a.pyd", "C10.dll"), first=first, others=(other,), on=windows())
    assert resolutions(linkage) == {"C10.dll": ("wheel:torch:torch/c10.dll", "loaded-first")}
