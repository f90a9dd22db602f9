from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from binary_checks.checks.symbols import (
    forbidden_symbol,
    missing_version,
    symbol_newer_than_tag,
    undefined_symbol,
    version_newer_than_tag,
)
from binary_checks.errors import NotApplicable
from binary_checks.gather.linkage import find_lowest_policy
from binary_checks.loaders import simulate
from binary_checks.model import (
    Edge,
    Finding,
    Format,
    Layout,
    Level,
    Linkage,
    LowestPolicy,
    MissingVersion,
    NeededVersion,
    NotInspected,
    Problem,
    Symbol,
    Symbols,
    TargetSystem,
    UnexploredSymbols,
    UnresolvedSymbol,
)
from binary_checks.systems import policies, policy_for
from binary_checks.wording.problem_lines import OF_CXX_ABI, group_problems
from fixtures.linking import (
    EXTENSION,
    dll,
    extension,
    library,
    link,
    macos,
    needs,
    system_library,
    target,
    windows,
)
from fixtures.values import macho_file, only, symbols, wheel

PLUGIN = "demo/plugin.so"
NONE = wheel(objects=(extension(exports=symbols("PyInit__native")), library(PLUGIN)))


def promising(tag: str) -> TargetSystem:
    return target(
        name=f"{tag}, CPython 3.11",
        policy=policy_for(tag),
        policies=policies("glibc", "x86_64"),
    )


MANYLINUX2014 = promising("manylinux2014_x86_64")


NO_POLICY = LowestPolicy(policy=None)


def need(version: str, of: str = "libm.so.6", weak: bool = False) -> NeededVersion:
    return NeededVersion(library=of, version=version, weak=weak)


def judge(*needs: NeededVersion, on: TargetSystem = MANYLINUX2014) -> list[object]:
    subject = extension(
        "libm.so.6",
        "libstdc++.so.6",
        runpath=("$ORIGIN",),
        imports=Symbols(
            Symbol(name=name, version="GLIBC_2.29") for name in ("exp", "pow", "log", "log2")
        ),
        symbol_versions=needs,
    )
    bundled = library("demo/libstdc++.so.6", name="libstdc++.so.6")
    linkage = link(subject, bundled, on=on)
    lowest = find_lowest_policy(wheel(objects=(subject, bundled)), linkage, on)
    return sentences(version_newer_than_tag(subject, linkage, on, lowest))


def sentences(findings: Iterable[Finding]) -> list[object]:
    """What is said of problems; other findings as they are."""
    return [each.sentence if isinstance(each, Problem) else each for each in findings]


def test_a_version_above_the_tag_is_told_with_symbols_and_the_lowest_true_tag() -> None:
    assert judge(need("GLIBC_2.5"), need("GLIBC_2.27"), need("GLIBC_2.29")) == [
        "needs GLIBC_2.29 of libm.so.6 (exp, log, log2 and 1 more), newer than "
        "manylinux2014_x86_64 allows; the lowest correct tag is manylinux_2_31_x86_64"
    ]


def test_versions_are_compared_as_numbers_where_the_loader_insists_on_them() -> None:
    assert judge(need("GLIBC_2.5"), need("GLIBC_2.17")) == []
    assert len(judge(need("GLIBC_2.18"))) == 1
    assert len(judge(need("GLIBC_" + "9" * 5000))) == 1
    assert judge(need("GLIBC_2.34", weak=True)) == []
    assert judge(need("GLIBCXX_3.4.30", of="libstdc++.so.6")) == []  # the library is bundled


def test_objects_that_need_different_tags_are_one_fault_with_the_tag_that_fits_all() -> None:
    older, newer = (
        library(f"demo/{name}.so", "libm.so.6", symbol_versions=(need(version),))
        for name, version in (("a", "GLIBC_2.27"), ("b", "GLIBC_2.34"))
    )
    package, on = wheel(objects=(older, newer)), MANYLINUX2014
    linkage = link(older, newer, on=on)
    lowest = find_lowest_policy(package, linkage, on)
    found = [
        f for item in (older, newer) for f in version_newer_than_tag(item, linkage, on, lowest)
    ]
    (group,) = group_problems(each for each in found if isinstance(each, Problem))
    assert group.first.path == "demo/b.so"
    assert {problem.command for problem in group.problems} == {
        "wheel tags --remove --platform-tag manylinux_2_34_x86_64 {package}"
    }


def test_glibcs_private_symbols_are_never_allowed() -> None:
    assert judge(need("GLIBC_PRIVATE"), need("GLIBC_2.29")) == [
        "needs GLIBC_PRIVATE of libm.so.6: glibc's own symbols, which another release may lack; no "
        "tag allows that",
        "needs GLIBC_2.29 of libm.so.6 (exp, log, log2 and 1 more), newer than "
        "manylinux2014_x86_64 allows; the lowest correct tag is manylinux_2_31_x86_64",
    ]


def test_a_part_of_glibc_does_not_hide_the_object_that_needs_a_newer_glibc() -> None:
    """A shipped libresolv.so.2 needs private symbols (semgrep 1.185.0)."""
    part = library("demo/libresolv.so.2", "libm.so.6", symbol_versions=(need("GLIBC_PRIVATE"),))
    own = library("demo/a.so", "libm.so.6", symbol_versions=(need("GLIBC_2.29"),))
    on, linkage = MANYLINUX2014, link(part, own, on=MANYLINUX2014)
    lowest = find_lowest_policy(wheel(objects=(part, own)), linkage, on)
    found = [f for item in (part, own) for f in version_newer_than_tag(item, linkage, on, lowest)]
    groups = group_problems(each for each in found if isinstance(each, Problem))
    assert [group.first.path for group in groups] == ["demo/libresolv.so.2", "demo/a.so"]


def test_a_plain_linux_tag_promises_no_version() -> None:
    plain = target(name="linux_x86_64, CPython 3.11")
    with pytest.raises(NotApplicable, match="linux_x86_64 does not promise any versions"):
        list(version_newer_than_tag(extension(), link(), plain, NO_POLICY))
    with pytest.raises(NotApplicable, match="linux_x86_64 does not promise any versions"):
        list(forbidden_symbol(extension(), link(), plain))
    with pytest.raises(NotApplicable, match="no tag is for Linux"):
        list(version_newer_than_tag(extension(), link(), macos(), NO_POLICY))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "there is no data on what manylinux_2_17_x86_64 promises"),
        (
            {"name": "linux_x86_64", "unjudged": ("linux_aarch64",)},
            "linux_aarch64 was not judged; linux_x86_64 was judged instead",
        ),
    ],
)
def test_a_promise_that_is_not_known_is_not_inspected(
    fields: dict[str, Any], sentence: str
) -> None:
    on = target(**fields)
    gap = [NotInspected(sentence=sentence)]
    assert list(version_newer_than_tag(extension(), link(), on, NO_POLICY)) == gap
    assert list(forbidden_symbol(extension(), link(), on)) == gap


def test_what_the_judged_tag_does_not_allow_is_told_beside_the_unjudged() -> None:
    on = replace(MANYLINUX2014, unjudged=("musllinux_1_2_x86_64",))
    gap, problem = judge(need("GLIBC_2.34"), on=on)
    assert gap == NotInspected(
        sentence="musllinux_1_2_x86_64 was not judged; manylinux2014_x86_64 was judged instead"
    )
    assert "newer than manylinux2014_x86_64" in str(problem)


def linked(**fields: Any) -> Linkage:
    return Linkage(target="x", closures=((EXTENSION, (EXTENSION,)),), **fields)


def undefined(*names: str, **fields: str) -> tuple[UnresolvedSymbol, ...]:
    usual = {"path": EXTENSION, "root": EXTENSION, **fields}
    return tuple(UnresolvedSymbol(name=name, **usual) for name in names)


@pytest.mark.parametrize(
    ("items", "sentence", "cause"),
    [
        (
            undefined("a", "_Z" + "x" * 90, "c", "d", "e"),
            f"has 5 undefined symbols (a, _Z{'x' * 20}...{'x' * 35}, c and 2 more): "
            "nothing that the file loads defines them; link it with the library that does",
            f"undefined symbol _Z{'x' * 90}",
        ),
        (
            undefined("f", root="demo/b.so"),
            "has 1 undefined symbol (f): "
            "nothing that demo/b.so loads defines it; link it with the library that does",
            "undefined symbol f",
        ),
        (
            undefined("_Z1fNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"),
            "has 1 undefined symbol (_Z1fNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE): "
            "nothing that the file loads defines it; link it with the library that does, compiled "
            "for the new std::string (_GLIBCXX_USE_CXX11_ABI=1), as this file is",
            "undefined symbol _Z1fNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        ),
        (
            undefined("_ZNSt7__cxx1112basic_stringIcE4swapEv"),
            "has 1 undefined symbol (_ZNSt7__cxx1112basic_stringIcE4swapEv): "
            "nothing that the file loads defines it; link it with the library that does",
            "undefined symbol _ZNSt7__cxx1112basic_stringIcE4swapEv",
        ),
        (
            undefined("f", library="libc.so.6", since="GLIBC_2.26"),
            "has 1 undefined symbol (f): libc.so.6 has it only since GLIBC_2.26, which is newer "
            "than the tag promises; build on a system as old as the tag promises, or use a newer "
            "tag",
            "undefined symbol f",
        ),
        (
            undefined("f", library="libc.so.6", since="GLIBC_2.34", before="librt.so.1"),
            "has 1 undefined symbol (f): libc.so.6 has it only since GLIBC_2.34, which is newer "
            "than the tag promises; link with librt.so.1, which has it in older systems",
            "undefined symbol f",
        ),
        (
            undefined("f", version="GLIBC_2.4", provider="system:libc.so.6"),
            "has 1 undefined symbol (f@GLIBC_2.4): libc.so.6 never had it in that version; "
            "rebuild this file",
            "version of libc.so.6",
        ),
        (
            undefined("f", version="V2", provider="demo/liba.so"),
            "has 1 undefined symbol (f@V2): demo/liba.so has it in another version only; "
            "bundle the library that it was linked with",
            "version of liba.so",
        ),
        (
            undefined("f", "g", elsewhere="demo/host.so"),
            "has 2 undefined symbols (f, g): demo/host.so defines them, "
            "but the file does not load that; link with it",
            "not linked with demo/host.so",
        ),
    ],
)
def test_undefined_symbols_are_told_once_an_object(
    items: tuple[UnresolvedSymbol, ...], sentence: str, cause: str
) -> None:
    assert list(undefined_symbol(linked(unresolved=items), NONE)) == [
        Problem(path=EXTENSION, sentence=sentence, cause=cause)
    ]


NOBODY = "nothing that the file loads defines {}; link it with the library that does"


@pytest.mark.parametrize(
    ("tag", "names", "sentence"),
    [
        (
            "musllinux_1_2_x86_64",
            ("__cxa_thread_atexit_impl", "mallinfo"),
            "uses __cxa_thread_atexit_impl, mallinfo, which glibc has, and musl does not",
        ),
        (
            "musllinux_1_2_x86_64",
            ("gone", "mallinfo"),
            f"has 2 undefined symbols (gone, mallinfo): {NOBODY.format('them')}",
        ),
        (
            "manylinux_2_28_x86_64",
            ("mallinfo",),
            f"has 1 undefined symbol (mallinfo): {NOBODY.format('it')}",
        ),
    ],
)
def test_a_function_of_glibc_is_no_librarys_on_musl(
    tag: str, names: tuple[str, ...], sentence: str
) -> None:
    linkage = replace(linked(unresolved=undefined(*names)), target=f"{tag}, CPython 3.11")
    assert only(Problem, undefined_symbol(linkage, NONE)).sentence == sentence


@pytest.mark.parametrize(
    ("first", "fields"),
    [
        ({"elsewhere": "demo/host.so"}, {}),
        ({}, {"requirements": ("torch",), "loads_everywhere": True}),
        ({"library": "/usr/lib/libz.1.dylib"}, {"format": Format.MACHO}),
    ],
)
def test_an_object_with_a_special_reason_hides_no_other(
    first: dict[str, str], fields: dict[str, Any]
) -> None:
    paths = ("demo/a.so", "demo/b.so")
    items = [each for path in paths for each in undefined("f", path=path, root=path, **first)]
    found = list(undefined_symbol(linked(unresolved=tuple(items), **fields), NONE))
    assert [each.path for each in found if not isinstance(each, str)] == [*paths]


def test_symbols_of_a_version_that_is_missing_as_a_whole_are_told_by_another_check() -> None:
    items = undefined("f", version="V2", provider="demo/liba.so")
    missing = MissingVersion(
        path=EXTENSION, library="liba.so", version="V2", provider="demo/liba.so"
    )
    linkage = linked(unresolved=items, missing_versions=(missing,))
    assert list(undefined_symbol(linkage, NONE)) == []
    assert len(list(missing_version(linkage, NONE))) == 1
    whole = link(extension(imports=symbols("malloc", "PyLong_FromLong")))
    assert [*undefined_symbol(whole, NONE), *missing_version(whole, NONE)] == []


@pytest.mark.parametrize(
    ("tag", "built_for", "own", "first"),
    [
        ("macosx_10_9_x86_64", "10.9", "2.0", "12.0"),
        ("macosx_11_0_x86_64", "10.9", "2.0", "12.0"),
        ("macosx_10_13_x86_64", "10.14", "2.0", "10.14"),
        ("macosx_10_13_x86_64", "10.14", "", "10.14"),
        ("macosx_10_14_x86_64", "10.14", "2.0", ""),  # skipped for libraries of 10.14 and later
        ("macosx_12_0_x86_64", "10.9", "2.0", ""),  # and nowhere compared since macOS 12
        ("macosx_10_9_x86_64", "10.9", "3.0", ""),
    ],
)
def test_an_older_compatibility_version_is_told_where_dyld_compares_it(
    tag: str, built_for: str, own: str, first: str
) -> None:
    name = "@loader_path/libx.dylib"
    required = (NeededVersion(library=name, version="3.0"),)
    user = macho_file("demo/a.so", needed=needs(name), required_versions=required)
    library = macho_file(
        "demo/libx.dylib", bundle=False, compatibility_version=own, minimum_os=built_for
    )
    package = wheel(f"demo-1.0-cp311-cp311-{tag}.whl", objects=(user, library))
    linkage = simulate(package, macos(architectures=("x86_64",)))
    found = list(missing_version(linkage, package))
    assert [str(each).count(f"macOS before {first} does not load") for each in found] == [1] * bool(
        first
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"unexplored": (UnexploredSymbols(path=PLUGIN, count=1, reason="libGL.so.1 is odd"),)},
            "1 undefined symbol could not be looked up: libGL.so.1 is odd",
        ),
        (
            {"unexplored": (UnexploredSymbols(path=PLUGIN, count=3, reason="libGL.so.1 is odd"),)},
            "3 undefined symbols could not be looked up: libGL.so.1 is odd",
        ),
        (
            {"unresolved": undefined("f", path=PLUGIN, root=PLUGIN, elsewhere="demo/host.so")},
            "has 1 undefined symbol (f): "
            "it works only in a process that has already loaded demo/host.so",
        ),
    ],
)
def test_symbols_that_could_not_be_looked_up_or_that_a_host_has_are_not_inspected(
    fields: dict[str, Any], sentence: str
) -> None:
    gap = NotInspected(path=PLUGIN, sentence=sentence)
    assert list(undefined_symbol(linked(**fields), NONE)) == [gap]


@pytest.mark.parametrize(
    ("versioned", "lacks"),
    [
        (True, "does not define it: the loader refuses the file"),
        (False, "defines no versions at all: the loader aborts the process"),
    ],
)
def test_a_version_that_the_library_lacks_is_missing(versioned: bool, lacks: str) -> None:
    item = MissingVersion(
        path=EXTENSION,
        library="liba.so",
        version="V2",
        provider="lib/python3.11/site-packages/demo/liba.so",
        versioned=versioned,
    )
    layout = Layout(site_packages="lib/python3.11/site-packages")
    assert list(missing_version(linked(missing_versions=(item,), layout=layout), NONE)) == [
        Problem(
            path=EXTENSION,
            sentence=f"needs V2 of liba.so, but demo/liba.so {lacks}",
            cause="version of liba.so",
        )
    ]


def test_what_is_private_to_one_build_of_an_allowed_library_is_told() -> None:
    subject = extension("libz.so.1", imports=symbols("inflate", "inflate_table"))
    linkage = link(subject, on=MANYLINUX2014)
    assert sentences(forbidden_symbol(subject, linkage, MANYLINUX2014)) == [
        "uses inflate_table of libz.so.1, which not all systems have: elsewhere it is undefined"
    ]
    subject = extension("libz.so.1", runpath=("$ORIGIN",), imports=symbols("inflate_table"))
    linkage = link(subject, library("demo/libz.so.1"), on=MANYLINUX2014)  # which may be used whole
    assert list(forbidden_symbol(subject, linkage, MANYLINUX2014)) == []


def test_of_several_private_symbols_the_first_identifies_the_problem() -> None:
    subject = extension("libz.so.1", imports=symbols("inflate_table", "_dist_code", "inflate"))
    linkage = link(subject, on=MANYLINUX2014)
    problem = only(Problem, forbidden_symbol(subject, linkage, MANYLINUX2014))
    assert "_dist_code, inflate_table" in problem.sentence
    assert problem.facts == ("libz.so.1", "_dist_code")


def test_a_symbol_of_a_later_macos_is_newer_than_the_tag() -> None:
    libcxx = "/usr/lib/libc++.1.dylib"
    data = {libcxx: system_library(libcxx, to_chars="13.3", terminate="")}
    on = macos(library_data=data)
    both = Symbols(Symbol(name=name, library=libcxx) for name in ("to_chars", "terminate"))
    library = macho_file(architecture="aarch64", imports=both)
    assert list(symbol_newer_than_tag(library, on, NONE)) == [
        Problem(
            path=library.path,
            sentence=f"needs to_chars of {libcxx}, new in macOS 13.3, while macosx_11_0_arm64 "
            "promises 11.0",
            cause=f"code built for macOS {library.minimum_os}",
            fix="build with ``MACOSX_DEPLOYMENT_TARGET`` as low as the tag, and guard the call "
            "with ``__builtin_available``; or use the tag ``macosx_14_0``, the lowest that "
            "promises macOS 13.3",
        )
    ]
    later = macos(library_data=data, minimum_os=(14, 0))
    assert list(symbol_newer_than_tag(library, later, NONE)) == []
    weak = Symbols([Symbol(name="to_chars", library=libcxx, weak=True)])
    optional = macho_file(architecture="aarch64", imports=weak)
    assert list(symbol_newer_than_tag(optional, on, NONE)) == []


@pytest.mark.parametrize(
    ("name", "of", "found"),
    [
        ("GetTempPath2W", "KERNEL32.dll", 1),
        ("GetTempPath2A", "api-ms-win-core-file-l1-2-4.dll", 1),
        ("GetTempPathW", "KERNEL32.dll", 0),
        ("GetTempPath2W", "demo.dll", 0),  # a function of the package's own
    ],
)
def test_a_function_that_windows_10_lacks_is_newer_than_the_tag(
    name: str, of: str, found: int
) -> None:
    imports = Symbols([Symbol(name=name, library=of)])
    module = dll("demo/_a.pyd", of, imports=imports)
    linkage = link(module, on=windows())
    problems = list(symbol_newer_than_tag(module, windows(), linkage))
    assert [str(each).count("promises Windows 10, too") for each in problems] == [1] * found
    delayed = dll("demo/_a.pyd", imports=imports)
    delayed = replace(delayed, needed=needs(of, delayed=True))
    assert list(symbol_newer_than_tag(delayed, windows(), linkage)) == []
    with pytest.raises(NotApplicable, match="no tag is for Windows"):
        list(symbol_newer_than_tag(module, target(), linkage))


def test_arm64_code_of_an_old_universal_tag_is_held_to_macos_11() -> None:
    name = "/usr/lib/libSystem.B.dylib"
    data = {name: system_library(name, aligned_alloc="10.15", newer="11.1")}
    universal = macos(minimum_os=(10, 9), architectures=("x86_64", "aarch64"), library_data=data)
    for architecture, used, count in (
        ("aarch64", "aligned_alloc", 0),
        ("aarch64", "newer", 1),
        ("x86_64", "aligned_alloc", 1),
        ("i686", "aligned_alloc", 0),  # which no tag is for
    ):
        imports = Symbols([Symbol(name=used, library=name)])
        item = macho_file(architecture=architecture, imports=imports)
        assert len(list(symbol_newer_than_tag(item, universal, NONE))) == count
    with pytest.raises(NotApplicable):
        list(symbol_newer_than_tag(item, target(), NONE))


def test_a_function_that_windows_lacks_is_no_library_to_ship() -> None:
    asked = Symbols((Symbol(name="Frob", library="kernel32.dll"),))
    module = dll("demo/a.cp311-win_amd64.pyd", "kernel32.dll", imports=asked)
    on = windows(library_data={"kernel32.dll": system_library("kernel32.dll", CloseHandle="")})
    package = wheel("demo-1.0-cp311-cp311-win_amd64.whl", objects=(module,))
    problem = only(Problem, undefined_symbol(simulate(package, on), package))
    assert problem.sentence.endswith("which does not have it: the file does not load")
    assert "GetProcAddress" in problem.fix


def test_a_symbol_is_not_blamed_on_what_a_repair_tool_put_into_another_wheel() -> None:
    module = extension(imports=symbols("deflate"), exports=symbols("PyInit__native"))
    for path, clause in (
        ("beads.libs/libz-12345678.so.1", "nothing that the file loads"),
        ("beads/libz.so.1", "wheel:beads:beads/libz"),
    ):
        other = library(path, exports=symbols("deflate"))
        beside = wheel("beads-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(other,))
        linkage = link(module, others=(beside,))
        problem = only(Problem, undefined_symbol(linkage, wheel(objects=(module,))))
        assert clause in problem.sentence


OLD, NEW = (
    "_ZN6helper5greetERKSs",
    "_ZN6helper5greetERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
)


def test_two_types_of_string_are_one_fault_with_its_own_remedy() -> None:
    helper = library("demo/libhelper.so", exports=symbols(NEW))
    module = extension("libhelper.so", imports=symbols(OLD), runpath=("$ORIGIN",))
    package = wheel(objects=(module, helper))
    problem = only(Problem, undefined_symbol(link(module, helper), package))
    assert (problem.cause, problem.consequence) == (OF_CXX_ABI, True)
    assert problem.fix == "compile everything with one ``-D_GLIBCXX_USE_CXX11_ABI``"
    # a library of another package that is not loaded has no part in it
    theirs = replace(helper, path="beads/libhelper.so")
    beside = wheel("beads-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", objects=(theirs,))
    module = extension(imports=symbols(OLD))
    linkage = link(module, others=(beside,))
    problem = only(Problem, undefined_symbol(linkage, wheel(objects=(module,))))
    assert "libhelper" not in problem.sentence
    assert problem.fix == ""


def test_a_flat_name_may_be_in_a_framework_that_another_module_loads() -> None:
    """nautilus_pyo3 of nautilus_trader loads Security, whose functions its engine uses."""
    suffix = "cpython-311-darwin.so"
    user, other = f"demo/engine.{suffix}", f"demo/core.{suffix}"
    modules = [
        macho_file(path, exports=symbols(f"PyInit_{path[5 : -len(suffix) - 1]}"))
        for path in (user, other)
    ]
    security = "/System/Library/Frameworks/Security.framework/Versions/A/Security"
    lost = UnresolvedSymbol(path=user, name="AuthorizationCreate", root=user)
    needed = Edge(
        path=other, architecture="aarch64", needed=security, resolved=f"system:{security}"
    )
    linkage = linked(format=Format.MACHO, unresolved=(lost,), edges=(needed,))
    problem = only(Problem, undefined_symbol(linkage, wheel(objects=modules)))
    assert problem.level is Level.WARNING
    assert problem.sentence.endswith(f"{other} loads frameworks of macOS, which may define them")
    own = replace(needed, path=user)
    (problem,) = undefined_symbol(replace(linkage, edges=(needed, own)), wheel(objects=modules))
    assert isinstance(problem, Problem)
    assert problem.level is Level.ERROR
