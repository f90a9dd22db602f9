"""What differs between objects: what they need, export, protect, and have code for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binary_checks.model import (
    Dependency,
    DeviceCode,
    DeviceContainers,
    DeviceKind,
    DeviceLinking,
    DeviceTarget,
    ElfFile,
    Format,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    MalformedObject,
    Package,
    Symbol,
    Symbols,
    UnknownSymbols,
    UnreadObject,
)
from fixtures.values import elf_file, macho_file, pe_file, symbols, wheel
from tests.differences.builds import build, compared, linkage, only, said

LIBRARY = "demo/libdemo.so"
MICROSOFTS = (
    "?what@exception@std@@UEBAPEBDXZ",
    "?$TSS0@?1??f@demo@@YAXXZ@4HA",
    "?x@?1??g@@YAXXZ@4HA",
)


def having(*items: object) -> Package:
    return wheel(objects=items)


def needing(*names: str, path: str = LIBRARY) -> ElfFile:
    return elf_file(path, name="libdemo.so", needed=tuple(Dependency(name=n) for n in names))


def exporting(*names: str, **fields: object) -> Package:
    return having(elf_file(LIBRARY, **{"name": "libdemo.so", "exports": symbols(*names), **fields}))


def test_a_need_that_is_new_to_the_package_is_one_line_for_all_objects() -> None:
    paths = [f"demo/{name}.so" for name in "abc"]
    old = having(*(needing(path=path) for path in paths))
    new = having(*(needing("libnvJitLink.so.12", path=path) for path in paths))
    assert said(old, new) == [
        "change needed-libraries: 3 objects: now need libnvJitLink.so.12 "
        "(demo/a.so, demo/b.so, demo/c.so)"
    ]
    assert said(new, new) == []
    # A library that is needed at its first call alone is not needed.
    delayed = Dependency(name="concrt140.dll", delayed=True)
    assert said(having(pe_file()), having(pe_file(needed=(delayed,)))) == []
    assert said(having(needing("libcudart.so.12")), having(needing("libcudart.so.13"))) == [
        "change needed-libraries: demo/libdemo.so: now needs libcudart.so.13 "
        "in place of libcudart.so.12"
    ]


def test_a_hash_in_the_name_of_a_bundled_library_is_no_difference() -> None:
    def bundled(digest: str) -> Package:
        name = f"libz-{digest}.so.1"
        return having(needing(name), elf_file(f"demo.libs/{name}", name=name))

    assert said(bundled("0123abcd"), bundled("4567cdef")) == []


def test_a_library_that_nothing_provides_is_a_break_and_one_of_the_system_is_noted() -> None:
    edges = ((LIBRARY, "libx.so.1", None),)
    found = said(
        build(having(needing()), linkage=linkage()),
        build(having(needing("libx.so.1")), linkage=linkage(*edges)),
    )
    assert found == [
        "break unresolved-libraries: demo/libdemo.so: needs libx.so.1, which is not found"
    ]
    before = build(having(needing("libx.so.1")), linkage=linkage(*edges))
    assert said(before, before) == []
    new = build(having(needing("libz.so.1")), linkage=linkage((LIBRARY, "libz.so.1", "system:z")))
    assert said(build(having(needing())), new) == [
        "info needed-libraries: demo/libdemo.so: now needs libz.so.1"
    ]


def test_a_library_that_is_in_it_where_no_search_leads_is_not_said_to_be_missing() -> None:
    inside = elf_file("demo/parts/libx.so.1", name="libx.so.1")
    found = said(
        build(having(needing(), inside), linkage=linkage()),
        build(having(needing("libx.so.1"), inside), linkage=linkage((LIBRARY, "libx.so.1", None))),
    )
    assert found == [
        "break unresolved-libraries: demo/libdemo.so: needs libx.so.1, "
        "which is in the package, but no search path leads there"
    ]


def test_exports_that_are_gone_are_a_break_and_weak_ones_are_noted() -> None:
    assert said(exporting("demo_open", "demo_close"), exporting("demo_open")) == [
        "break exports: demo/libdemo.so: lost 1 export (demo_close)"
    ]
    assert said(exporting("a"), exporting()) == [
        "break exports: demo/libdemo.so: lost 1 export (a)"
    ]
    inline = Symbols([Symbol(name="kept"), Symbol(name="_ZN4demo6inlineEv", weak=True)])
    old = having(elf_file(LIBRARY, name="libdemo.so", exports=inline))
    assert said(old, exporting("kept")) == [
        "info exports: demo/libdemo.so: lost 1 weak export (demo::inline)"
    ]


def test_a_weak_export_that_an_object_imports_is_an_explicit_instantiation() -> None:
    inline = Symbols([Symbol(name="_ZN4demo3getIfEEvv", weak=True), Symbol(name="kept")])
    library = elf_file(LIBRARY, name="libdemo.so", exports=inline)
    user = elf_file("demo/user.so", imports=symbols("_ZN4demo3getIfEEvv"))
    new = having(elf_file(LIBRARY, name="libdemo.so", exports=symbols("kept")), user)
    assert only(said(having(library, user), new), "imported-exports") == [
        "break imported-exports: demo/libdemo.so: lost 1 export that other objects of the old "
        "build imported (demo::get)"
    ]
    assert only(said(having(library), new), "imported-exports") == []


def test_an_extension_module_that_is_called_like_a_library_is_none() -> None:
    one, other = (
        having(elf_file(f"demo/lapack_lite.cpython-{each}-x86_64-linux-gnu.so"))
        for each in (311, 312)
    )
    assert said(one, other) == []


def test_symbols_that_nobody_links_with_do_not_count() -> None:
    gone = (
        "_init",
        "_ZGVZN4demo1fEvE1x",
        "_ZdlPvm",
        "_ZnamRKSt9nothrow_t",
        "_ZN6thrust4sortEv",
        "__bss_start",
        "__fatbinwrap_0a1b_6_x_cu_0",
        "__cudaRegisterLinkedBinary_0a1b",
        "_ZNSt6vectorIiE4pushEi",
        "_ZN12_GLOBAL__N_13runEv",
    )
    assert said(exporting("kept", *gone), exporting("kept")) == []
    microsofts = Symbols([Symbol(name=n) for n in MICROSOFTS] + [Symbol(name="kept")])
    assert said(exporting(exports=microsofts), exporting("kept")) == []


def test_of_an_extension_module_only_its_init_function_is_an_interface() -> None:
    for path in ("demo/_native.cpython-311-x86_64-linux-gnu.so", "30fc__mypyc.so"):
        init = f"PyInit_{path.rpartition('/')[2].partition('.')[0]}"
        old = having(elf_file(path, exports=symbols(init, "helper")))
        assert said(old, having(elf_file(path, exports=symbols(init)))) == []


def test_a_library_with_another_soname_is_one_line() -> None:
    old = having(elf_file("demo/libdemo.so.1", name="libdemo.so.1", exports=symbols("a", "b")))
    new = having(elf_file("demo/libdemo.so.2", name="libdemo.so.2", exports=symbols("a")))
    assert said(old, new) == [
        "break exports: demo/libdemo.so.2: goes by the name libdemo.so.2, previously libdemo.so.1: "
        "programs linked with it look for the old name"
    ]
    weak = Symbols((Symbol(name="inline", weak=True),))
    user = elf_file(imports=symbols("inline"))  # whose import is not missed besides
    old = having(elf_file("demo/libdemo.so.1", name="libdemo.so.1", exports=weak), user)
    assert [line.partition(":")[0] for line in said(old, having(*new.objects, user))] == [
        "break exports"
    ]


def test_exports_that_are_not_known_are_not_compared() -> None:
    unknown = UnknownSymbols("the facts were written without symbols (--no-symbols)")
    found = compared(exporting("a"), having(elf_file(LIBRARY, name="libdemo.so", exports=unknown)))
    assert [(gap.difference, gap.subject) for gap in found.not_compared] == [
        ("exports", LIBRARY),
        ("imported-exports", ""),
    ]


def test_an_object_that_is_not_read_is_not_compared() -> None:
    unread = UnreadObject(path="demo/u.dll", format=Format.PE, reason="not read yet")
    (gap,) = compared(wheel(), wheel(unread=(unread,))).not_compared
    assert (gap.subject, gap.reason) == ("demo/u.dll", "not read in demo.whl: not read yet")


def test_a_library_that_is_gone_is_a_break_and_a_new_one_is_noted() -> None:
    assert said(exporting("a"), having()) == [
        "break libraries: demo/libdemo.so: the library is gone"
    ]
    assert said(having(), exporting("a")) == ["info libraries: demo/libdemo.so: is a new library"]


@pytest.mark.parametrize(
    "field",
    [
        {"malformed": (MalformedObject(path=LIBRARY, format=Format.ELF, offset=1, reason=""),)},
        {"unread": (UnreadObject(path=LIBRARY, format=Format.ELF, reason="too large"),)},
    ],
)
def test_a_library_that_could_not_be_read_is_neither_gone_nor_new(field: dict[str, Any]) -> None:
    other = elf_file(architecture="aarch64")
    old, new = exporting("a"), wheel(objects=(other,), **field)
    found = compared(old, new)
    assert [line.text for line in found.lines if line.difference == "libraries"] == []
    assert {(gap.difference, gap.subject) for gap in found.not_compared} == {
        ("", LIBRARY),
        ("libraries", ""),  # which of its architectures it has code for
    }
    assert not any(LIBRARY in line.text for line in compared(new, old).lines)


def test_code_of_an_architecture_that_a_fat_file_lost_is_a_break() -> None:
    both = [macho_file("demo/x.so", architecture=each) for each in ("x86_64", "aarch64")]
    assert "break libraries: has no code for x86_64 any more" in said(
        having(*both), having(both[1])
    )


def test_absolute_search_paths_are_a_change_and_one_that_nothing_needs_any_more_is_none() -> None:
    old, new = (having(elf_file(runpath=(path,))) for path in ("$ORIGIN", "/usr/local/cuda/lib64"))
    assert said(old, new) == [
        "change search-paths: demo/_native.so: has an absolute search path: "
        "RUNPATH /usr/local/cuda/lib64, previously RUNPATH $ORIGIN"
    ]
    assert said(old, old) == []
    assert said(new, having(elf_file()))[0].startswith("info search-paths")
    assert said(having(elf_file(rpath=("$ORIGIN/../demo.libs",))), having(elf_file())) == []


def test_a_bundled_library_that_nothing_loads_breaks_nothing() -> None:
    path = "demo.libs/libidle-0123abcd.so.1"
    item = elf_file(path, name="libidle-0123abcd.so.1")
    edges = linkage((path, "libx.so.1", None))
    assert said(build(having(item), linkage=linkage()), build(having(item), linkage=edges)) == [
        "change unresolved-libraries: demo.libs/libidle.so.1: needs libx.so.1, which is not found"
    ]


def test_protection_that_is_lost_is_a_change_and_what_no_longer_loads_is_a_break() -> None:
    full = having(elf_file(relro=True, bind_now=True))
    assert said(full, having(elf_file(relro=False, bind_now=True))) == [
        "change elf-hardening: demo/_native.so: lost RELRO"
    ]
    assert said(full, having(elf_file(bind_now=True, executable_stack=True))) == [
        "break elf-hardening: demo/_native.so: asks for an executable stack now: glibc 2.41 and "
        "later refuse it"
    ]
    assert said(full, full) == []
    old = having(elf_file(guards=("IBT", "SHSTK")))
    assert said(old, having(elf_file(guards=("SHSTK",)))) == [
        "change elf-hardening: demo/_native.so: lost IBT"
    ]
    assert said(having(elf_file()), old)[0] == (
        "info elf-hardening: demo/_native.so: gained IBT, SHSTK"
    )
    fixed = having(elf_file(fixed_address=True))
    assert said(having(elf_file()), fixed) == [
        "change elf-hardening: demo/_native.so: lost position independence (PIE)"
    ]
    old, new = (
        having(elf_file(architecture="aarch64", alignment=each)) for each in (0x10000, 0x1000)
    )
    assert said(old, new)[0].startswith("break elf-hardening: demo/_native.so: has segments")


def test_mitigations_of_windows() -> None:
    guarded, bare = (having(pe_file(dll_characteristics=each)) for each in (0x4160, 0x0160))
    assert said(guarded, bare) == ["change pe-hardening: demo/_native.pyd: lost GUARD_CF"]
    assert said(bare, guarded) == ["info pe-hardening: demo/_native.pyd: gained GUARD_CF"]


def test_signatures_that_are_gone() -> None:
    signed, bare = (
        having(macho_file(architecture="aarch64", signed=each)) for each in (True, False)
    )
    assert said(signed, bare) == ["break code-signatures: demo/_native.so: lost its code signature"]
    assert said(signed, signed) == []
    old, new = (having(pe_file(signed=each)) for each in (True, False))
    assert only(said(old, new), "authenticode") == [
        "change authenticode: demo/_native.pyd: lost its Authenticode signature"
    ]


def test_versions_of_what_it_is_built_from() -> None:
    def linked(version: str, linking: Linking = Linking.STATIC, file: str = "") -> LinkedLibraries:
        found = LinkedLibrary(
            name="OpenSSL", role="TLS", linking=linking, version=version, file=file
        )
        return LinkedLibraries(libraries=(found,))

    old = build(linked=linked("3.3.0"))
    assert said(old, build(linked=linked("3.3.1"))) == [
        "change linked-versions: OpenSSL: is linked in version 3.3.1, previously 3.3.0"
    ]
    assert said(old, build(linked=linked("", Linking.DYNAMIC, "libssl.so.3"))) == [
        "change linked-versions: OpenSSL: is linked as libssl.so.3, previously statically"
    ]
    assert said(old, old) == []


def test_bundled_libraries_come_and_go() -> None:
    def bundling(*names: str) -> Package:
        return having(*(elf_file(f"demo.libs/{each}", name=each) for each in names))

    old = bundling("libharfbuzz-0123abcd.so.0.6", "libgone-0123abcd.so.1")
    new = bundling("libharfbuzz-4567abcd.so.0.7", "libnew-0123abcd.so.1")
    assert said(old, new) == [
        "change bundled-libraries: libgone.so.1: is no longer bundled",
        "change bundled-libraries: libharfbuzz.so.0.7: is bundled in place of libharfbuzz.so.0.6",
        "change bundled-libraries: libnew.so.1: is bundled now",
    ]


def test_the_other_string_of_libstdcxx_is_a_break() -> None:
    def asking(name: str) -> Package:
        needed = (Dependency(name="libstdc++.so.6"),)
        return having(elf_file(needed=needed, imports=symbols(name)))

    new_abi = asking("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc")
    old_abi = asking("_ZNSs6appendEPKc")
    assert said(new_abi, old_abi) == [
        "break cxx-abi: demo/_native.so: uses libstdc++'s old (pre-cxx11) std::string, "
        "previously the "
        "new (cxx11) one"
    ]
    assert said(new_abi, new_abi) == []


def test_nobody_links_with_the_strings_of_an_extension_module() -> None:
    def asking(name: str) -> Package:
        needed = (Dependency(name="libstdc++.so.6"),)
        exports = symbols("PyInit__native")
        return having(elf_file(needed=needed, imports=symbols(name), exports=exports))

    new = asking("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc")
    (line,) = said(asking("_ZNSs6appendEPKc"), new)
    assert line.startswith("info cxx-abi: demo/_native.so: uses libstdc++'s new (cxx11)")


# The GPUs that two builds have code for.


def gpu(*targets: tuple[DeviceKind, str]) -> Package:
    code = (DeviceCode(kind=k, architecture=a, count=1, bytes=1, compressed=0) for k, a in targets)
    return wheel(objects=(elf_file("demo/libdemo.so", name="libdemo.so", device_code=tuple(code)),))


def test_a_gpu_that_nothing_runs_on_any_more_is_a_break() -> None:
    sass, ptx = DeviceKind.SASS, DeviceKind.PTX
    old = gpu((sass, "sm_70"), (sass, "sm_90"))
    assert said(old, gpu((sass, "sm_90"))) == [
        "break gpu-architectures: demo/libdemo.so: lost code for sm_70: nothing runs on sm_70"
    ]
    assert said(old, gpu((ptx, "sm_60"), (sass, "sm_90")))[0] == (
        "change gpu-architectures: demo/libdemo.so: lost code for sm_70"
    )
    assert said(gpu((sass, "sm_80"), (sass, "sm_86")), gpu((sass, "sm_80"))) == [
        "change gpu-architectures: demo/libdemo.so: lost code for sm_86"
    ]
    assert said(old, old) == []


def outcome(old: Package, new: Package) -> str:
    """The severity of what is lost of the GPUs."""
    return next(
        (line.partition(" ")[0] for line in said(old, new) if ": lost code for " in line), ""
    )


@pytest.mark.parametrize(
    ("lost", "kept", "severity"),
    [
        ("sm_103", "sm_100f", "change"),  # a family's code runs on it
        ("sm_103", "sm_100a", "break"),  # code for one GPU does not
        ("sm_100", "sm_103f", "break"),
        ("sm_90", "sm_90a", "change"),
    ],
)
def test_code_of_a_family_runs_on_its_later_members(lost: str, kept: str, severity: str) -> None:
    sass = DeviceKind.SASS
    assert outcome(gpu((sass, lost), (sass, kept)), gpu((sass, kept))) == severity


def test_ptx_that_is_lost_leaves_later_gpus_without_code() -> None:
    sass, ptx = DeviceKind.SASS, DeviceKind.PTX
    old = gpu((sass, "sm_90"), (ptx, "sm_90"))
    assert said(old, gpu((sass, "sm_90"))) == [
        "break gpu-architectures: demo/libdemo.so: lost code for PTX for sm_90: nothing runs on "
        "later GPUs"
    ]
    assert outcome(old, gpu((sass, "sm_90"), (ptx, "sm_80"))) == "change"
    assert outcome(old, gpu((sass, "sm_90"), (sass, "sm_100"))) == "change"
    assert outcome(old, gpu((sass, "sm_80"), (sass, "sm_100"))) == "break"  # not on sm_90


@pytest.mark.parametrize(
    ("lost", "kept", "severity"),
    [
        ("gfx1101", "gfx11-generic", "change"),
        ("gfx942", "gfx9-4-generic", "change"),
        ("gfx942", "gfx9-generic", "break"),
        ("gfx908", "gfx9-generic", "break"),
        ("gfx1101", "gfx1100", "break"),
        ("gfx90a:xnack+", "gfx90a", "change"),
        ("gfx90a", "gfx90a:xnack-", "break"),
    ],
)
def test_amds_generic_code_runs_on_its_family(lost: str, kept: str, severity: str) -> None:
    amd = DeviceKind.AMDGPU
    assert outcome(gpu((amd, lost), (amd, kept)), gpu((amd, kept))) == severity


def test_code_that_no_driver_can_use_any_more_is_lost() -> None:
    old = gpu((DeviceKind.SASS, "sm_80"), (DeviceKind.SASS, "sm_90"))
    (library,) = old.objects
    assert isinstance(library, ElfFile)
    one, other = library.device_code
    codes = (one, replace(other, linking=DeviceLinking.UNUSABLE))
    new = wheel(objects=(replace(library, device_code=codes),))
    assert said(old, new) == [
        "break gpu-architectures: demo/libdemo.so: lost code for sm_90: nothing runs on sm_90"
    ]


def contain(*rows: tuple[str, int]) -> Package:
    """A library with machine code in containers: the targets, and how many containers have them."""
    groups = [
        (
            tuple(DeviceTarget(kind=DeviceKind.SASS, architecture=each) for each in row.split()),
            count,
        )
        for row, count in rows
    ]
    codes = {
        DeviceCode(kind=t.kind, architecture=t.architecture, count=1, bytes=1, compressed=0)
        for targets, _ in groups
        for t in targets
    }
    library = elf_file(
        "demo/libdemo.so",
        name="libdemo.so",
        device_code=tuple(sorted(codes)),
        device_containers=tuple(DeviceContainers(targets=t, count=count) for t, count in groups),
    )
    return wheel(objects=(library,))


EVEN = ("sm_80 sm_86 sm_90", 65)


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (
            (EVEN,),
            (("sm_80 sm_86 sm_90", 64), ("", 1)),  # emptied
            "break: sm_80, sm_86, sm_90",
        ),
        ((EVEN,), (("sm_80 sm_86 sm_90", 63), ("sm_80 sm_90", 2)), "change: sm_86"),
        ((EVEN,), (("sm_80 sm_86 sm_90", 64), ("sm_80 sm_86", 1)), "break: sm_90"),
        ((EVEN,), (EVEN, ("sm_90", 5)), ""),  # new source files for one GPU, such as CUTLASS's
        ((EVEN,), (("sm_80 sm_86 sm_90", 60),), ""),  # fewer source files
        ((EVEN, ("sm_90", 5)), (("sm_80 sm_86 sm_90", 60), ("sm_90", 5)), ""),
    ],
)
def test_code_that_some_containers_have_lost_is_told(
    old: tuple[tuple[str, int], ...], new: tuple[tuple[str, int], ...], lost: str
) -> None:
    severity, _, targets = lost.partition(": ")
    line = f"{severity} gpu-architectures: demo/libdemo.so: lost code for {targets}"
    line += " in some of its containers, each of which has the functions of one source file"
    found = [each for each in said(contain(*old), contain(*new)) if " lost code for " in each]
    assert found == ([line] if lost else [])
