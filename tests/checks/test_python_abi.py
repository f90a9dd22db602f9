from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.python_abi import (
    free_threading_mismatch,
    gil_enabled_by_module,
    missing_init_function,
    unimplemented_function,
    unstable_symbol,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Claims,
    CodeNames,
    Finding,
    Format,
    Interpreter,
    Level,
    MalformedObject,
    NotInspected,
    ObjectFile,
    OpenedNames,
    Package,
    Problem,
    PythonClaim,
    Symbol,
    Symbols,
    TargetSystem,
    UnreadObject,
)
from binary_checks.wording.problem_lines import of_refusal
from fixtures.linking import library, link, target
from fixtures.values import elf_file, macho_file, only, pe_file, say, symbols, wheel

ABI3 = "demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl"
PATH = "demo/_native.abi3.so"
PYTHON = Interpreter(
    implementation="cpython",
    version=(3, 8),
    free_threaded=False,
    exports=frozenset({"PyRun_String", "PyLong_FromLong", "_PyLong_New"}),
)
SYSTEM: TargetSystem = target(interpreter=PYTHON)


def judge(*objects: Any, name: str = ABI3) -> list[object]:
    linkage = link(*objects, on=SYSTEM)
    return list(unstable_symbol(wheel(name, objects=objects), linkage, SYSTEM))


def test_a_symbol_outside_of_the_stable_abi_is_told() -> None:
    assert judge(elf_file(PATH, imports=symbols("PyRun_String", "PyLong_FromLong"))) == [
        Problem(
            path=PATH,
            sentence="uses PyRun_String, not in the stable ABI: some Pythons lack it "
            "or changed it; define Py_LIMITED_API in every source",
        )
    ]


@pytest.mark.parametrize(
    ("pythons", "used", "newest"),
    [
        ("cp38", ("PyModule_AddType",), "3.10"),
        ("cp38.cp310", ("PyModule_AddType",), "3.10"),
        ("cp38", ("PyModule_AddType", "PyType_GetName"), "3.11"),
        ("cp310", ("PyModule_AddType",), ""),
    ],
)
def test_a_symbol_newer_than_the_tag_is_told(
    pythons: str, used: tuple[str, ...], newest: str
) -> None:
    name = f"demo-1.0-{pythons}-abi3-manylinux_2_17_x86_64.whl"
    found = [str(each) for each in judge(elf_file(PATH, imports=symbols(*used)), name=name)]
    told = f"only since Python {newest}, while the tag promises 3.8"
    assert [told in each for each in found] == [True] * bool(newest)


def test_five_symbols_outside_of_the_stable_abi_are_named() -> None:
    names = [f"_PyOwn_{letter}" for letter in "abcdef"]
    on = replace(SYSTEM, interpreter=replace(PYTHON, exports=frozenset(names)))
    for count, more in ((5, ""), (6, " and 1 more")):
        module = elf_file(PATH, imports=symbols(*names[:count]))
        found = unstable_symbol(wheel(ABI3, objects=(module,)), link(module, on=on), on)
        sentence = only(Problem, found).sentence
        assert sentence.startswith(f"uses {', '.join(names[:5])}{more}, not in the stable ABI")


@pytest.mark.parametrize(
    ("path", "tag"), [(PATH, "py3-none"), ("demo/_native.abi3t.so", "cp315-abi3t")]
)
def test_the_suffix_alone_and_abi3t_promise_the_stable_abi(path: str, tag: str) -> None:
    subject = elf_file(path, imports=symbols("PyRun_String"))
    assert only(Problem, judge(subject, name=f"demo-1.0-{tag}-manylinux_2_17_x86_64.whl"))


@pytest.mark.parametrize("path", [PATH, "demo/_native.cpython-311-x86_64-linux-gnu.so"])
def test_in_a_wheel_for_one_python_no_module_promises_the_stable_abi(path: str) -> None:
    """CPython 3.12 alone loads csimdjson.abi3.so, of a cp312-cp312 wheel of pysimdjson."""
    name = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    with pytest.raises(NotApplicable, match="no object that promises the stable ABI"):
        judge(elf_file(path, imports=symbols("PyRun_String")), name=name)


def test_an_object_that_promises_and_could_not_be_read_is_not_inspected() -> None:
    unread = tuple(
        UnreadObject(path=path, format=Format.ELF, reason="too large")
        for path in (PATH, "demo/other.so")
    )
    package = wheel("demo-1.0-py3-none-manylinux_2_17_x86_64.whl", unread=unread)
    assert list(unstable_symbol(package, link(), SYSTEM)) == [
        NotInspected(path=PATH, sentence="too large")
    ]


def test_in_a_folder_each_module_speaks_for_itself() -> None:
    bound, stable = "a.cpython-311-x86_64-linux-gnu.so", "b.abi3.so"
    objects = tuple(
        elf_file(path, imports=symbols("PyRun_String", "PyModule_AddType"))
        for path in (bound, stable)
    )
    pythons = (
        PythonClaim(name="abi3", implementation="cpython", abi="abi3"),
        PythonClaim(name="cp38", implementation="cpython", abi="cp38", version=(3, 8)),
    )
    claims = Claims(pythons=pythons, partial=True)
    folder = Package(path=Path("env"), claims=claims, objects=objects)
    found = only(Problem, unstable_symbol(folder, link(*objects, on=SYSTEM), SYSTEM))
    assert (found.path, found.sentence.partition(",")[0]) == (stable, "uses PyRun_String")


def test_a_tag_beside_the_judged_one_is_said_once() -> None:
    on = replace(SYSTEM, unjudged=("macosx_11_0_arm64",))
    assert list(unstable_symbol(wheel(ABI3, objects=(elf_file(PATH),)), link(), on)) == [
        NotInspected(
            sentence="macosx_11_0_arm64 was not judged; manylinux_2_17_x86_64 was judged instead"
        )
    ]


def test_stable_symbols_private_ones_of_macros_among_them_are_fine() -> None:
    used = symbols("PyLong_FromLong", "_Py_NoneStruct", "_Py_Dealloc", "PyInit_other", "malloc")
    assert judge(elf_file(PATH, imports=used)) == []
    unloaded = macho_file(PATH, imports=symbols("PyRun_String"))  # by the judged platform
    finding = only(NotInspected, judge(unloaded, macho_file("demo/b.abi3.so", imports=used)))
    assert "manylinux_2_17_x86_64 does not load Mach-O" in finding.sentence


def test_symbols_that_a_library_of_the_package_defines_are_not_pythons() -> None:
    fields: dict[str, Any] = {"runpath": ("$ORIGIN",), "imports": symbols("PyRun_String")}
    module = library(PATH, "libshim.so", **fields)
    assert judge(module, elf_file("demo/libshim.so", exports=symbols("PyRun_String"))) == []
    assert only(NotInspected, judge(module))  # nobody knows what the absent library defines


def asks(*names: str, of: str = "") -> Symbols:
    return Symbols(Symbol(name=name, library=of) for name in names)


def threads(
    path: str, *used: str, name: str = "cp313-cp313t", make: Callable[..., ObjectFile] = elf_file
) -> list[object]:
    stem = path.rpartition("/")[2].partition(".")[0]
    python = "python313t.dll" if make is pe_file else ""
    subject = make(path, imports=asks(*used, of=python), exports=symbols(f"PyInit_{stem}"))
    package = wheel(f"demo-1.0-{name}-manylinux_2_17_x86_64.whl", objects=(subject,))
    return list(free_threading_mismatch(package))


@pytest.mark.parametrize(
    ("path", "used", "shows"),
    [
        ("demo/a.cpython-313-x86_64-linux-gnu.so", "_Py_MergeZeroLocalRefcount", True),
        ("demo/a.cpython-313-x86_64-linux-gnu.so", "PyUnstable_Module_SetGIL", True),
        ("demo/a.cpython-313t-x86_64-linux-gnu.so", "_Py_Dealloc", True),
        ("demo/a.so", "_Py_Dealloc", True),
        ("demo/a.cpython-313-x86_64-linux-gnu.so", "_Py_Dealloc", False),
        ("demo/a.cpython-313t-x86_64-linux-gnu.so", "_Py_MergeZeroLocalRefcount", False),
        ("demo/a.cpython-313t-x86_64-linux-gnu.so", "Py_DecRef", False),
    ],
)
def test_headers_of_the_other_build_show(path: str, used: str, shows: bool) -> None:
    assert [type(finding) for finding in threads(path, used)] == [Problem] * shows


@pytest.mark.parametrize(
    ("path", "make"),
    [("demo/a.cp313t-win_amd64.pyd", pe_file), ("demo/a.cpython-313t-darwin.so", macho_file)],
)
def test_every_format_shows_its_headers(path: str, make: Callable[..., ObjectFile]) -> None:
    assert [type(finding) for finding in threads(path, "_Py_Dealloc", make=make)] == [Problem]
    assert threads(path, "_Py_DecRefShared", make=make) == []


@pytest.mark.parametrize(
    ("path", "tag", "sentence"),
    [
        (
            "demo/a.so",
            "cp314-none",
            "cp314-none is also a tag of CPython 3.14t, which imports this file although it is "
            "compiled for the build with the GIL: use the tag cp314-cp314",
        ),
        (
            "demo/a.cpython-314-x86_64-linux-gnu.so",
            "cp313.cp314-none",
            "cp314-none is also a tag of CPython 3.14t, which imports no file ending in "
            ".cpython-314-x86_64-linux-gnu.so: use the tag cp314-cp314",
        ),
        (
            "demo/a.so",
            "cp313-none",
            "cp313-none is also a tag of CPython 3.13t, which imports this file although it is "
            "compiled for the build with the GIL: use the tag cp313-cp313",
        ),
        ("demo/a.so", "cp312-none", ""),  # has no free-threaded build
        ("demo/a.so", "cp314-cp314", ""),
        ("demo/a.so", "py314-none", ""),
        ("demo/a.cpython-314t-x86_64-linux-gnu.so", "cp314-none", ""),
    ],
)
def test_a_tag_without_abi_is_for_the_free_threaded_build_too(
    path: str, tag: str, sentence: str
) -> None:
    found = threads(path, "Py_DecRef", name=tag)
    assert [(each.sentence, each.level) for each in found if isinstance(each, Problem)] == (
        [(sentence, Level.WARNING)] if sentence else []
    )


def test_a_module_for_each_build_fits_a_tag_without_abi() -> None:
    both = [
        elf_file(f"demo/a.cpython-314{flag}-x86_64-linux-gnu.so", exports=symbols("PyInit_a"))
        for flag in ("", "t")
    ]
    package = wheel("demo-1.0-cp314-none-manylinux_2_17_x86_64.whl", objects=both)
    assert list(free_threading_mismatch(package)) == []


def test_the_stable_abi_is_bound_to_no_kind_of_python_and_unread_modules_are_a_gap() -> None:
    with pytest.raises(NotApplicable, match="no extension module that is tied"):
        threads("demo/a.abi3.so", "_Py_Dealloc")
    path = "demo/a.cpython-313-x86_64-linux-gnu.so"
    broken = MalformedObject(path=path, format=Format.ELF, offset=0, reason="cut short")
    assert list(free_threading_mismatch(wheel(malformed=(broken,)))) == [
        NotInspected(path=path, sentence="cut short")
    ]


NOTHING = CodeNames()


def find_uninitialised(
    subject: ObjectFile, *others: ObjectFile, code: CodeNames = NOTHING
) -> list[Finding]:
    return list(missing_init_function(subject, wheel(objects=(subject, *others)), code))


@pytest.mark.parametrize(
    ("path", "make", "python"),
    [
        ("demo/a.cp313-win_amd64.pyd", pe_file, "python313.dll"),
        ("demo/a.pyd", pe_file, "python3.dll"),
        ("demo/a.cpython-313-darwin.so", macho_file, ""),
    ],
)
def test_an_init_function_is_missed_in_every_format(
    path: str, make: Callable[..., ObjectFile], python: str
) -> None:
    subject = make(path, imports=asks("PyLong_FromLong", of=python))
    assert say(find_uninitialised(subject)) == ["does not export PyInit_a"]
    assert find_uninitialised(make(path, exports=symbols("PyInit_a"))) == []


def test_an_extension_without_its_init_function_cannot_be_imported() -> None:
    subject = elf_file("demo/a.cpython-311-x86_64-linux-gnu.so", exports=symbols("PyInit_b"))
    assert say(find_uninitialised(subject)) == ["exports PyInit_b instead of PyInit_a"]
    subject = elf_file("demo/a.abi3.so", imports=symbols("PyLong_FromLong"))
    assert say(find_uninitialised(subject)) == ["does not export PyInit_a"]


@pytest.mark.parametrize(("tag", "count"), [("cp315-abi3t", 0), ("cp313-cp313", 1)])
def test_only_python_3_15_calls_the_hook_of_pep_793(tag: str, count: int) -> None:
    """obstore 0.12.1 for abi3t exports PyModExport__obstore alone."""
    subject = elf_file("demo/a.so", exports=symbols("PyModExport_a"))
    subject = replace(subject, path="demo/a.abi3t.so" if "abi3t" in tag else "demo/a.abi3.so")
    package = wheel(f"demo-1.0-{tag}-manylinux_2_28_x86_64.whl", objects=(subject,))
    assert len(list(missing_init_function(subject, package, NOTHING))) == count


HPY = ("HPyInit_demo", "HPyInitGlobalContext_demo", "get_required_hpy_major_version_demo")


@pytest.mark.parametrize("suffix", [".hpy0.so", ".hpy0-cp311.so"])
def test_a_module_of_hpy_has_the_functions_of_its_name(suffix: str) -> None:
    whole = elf_file(f"demo{suffix}", exports=symbols(*HPY))
    assert find_uninitialised(whole) == []
    (problem,) = find_uninitialised(elf_file(f"demo{suffix}", exports=symbols(*HPY[1:])))
    assert isinstance(problem, Problem)
    assert problem.sentence.startswith("does not export HPyInit_demo")


GRAALPY = Interpreter(
    implementation="graalpy",
    version=(3, 12),
    free_threaded=False,
    exports=frozenset({"PyList_New", "PyAsyncGen_New"}),
    unimplemented=frozenset({"PyAsyncGen_New"}),
    release="25.0",
)


def test_a_function_that_graalpy_does_not_implement_is_a_warning() -> None:
    on = target(interpreter=GRAALPY)
    module = elf_file("demo.so", imports=symbols("PyList_New", "PyAsyncGen_New"))
    problem = only(Problem, unimplemented_function(module, on))
    assert problem.level is Level.WARNING
    assert problem.sentence == (
        "uses PyAsyncGen_New, which GraalPy 25.0 does not implement: a call ends the process"
    )
    assert list(unimplemented_function(replace(module, imports=symbols("PyList_New")), on)) == []
    with pytest.raises(NotApplicable, match="GraalPy"):
        list(unimplemented_function(module, SYSTEM))


def test_a_missing_init_function_and_the_refusals_because_of_it_have_one_cause() -> None:
    subject = elf_file("demo/a.abi3.so", exports=symbols("PyInit_b"))
    problem = only(Problem, find_uninitialised(subject))
    words = "ImportError: dynamic module does not define module export function (PyInit_a)"
    for message in ("exports no PyInit_a", words):
        assert of_refusal(message, wheel(), wheel()) == problem.cause


@pytest.mark.parametrize(
    "subject",
    [
        elf_file("demo/a.abi3.so", exports=symbols("AES_start")),
        elf_file("demo/a.so", imports=symbols("PyLong_FromLong")),
        pe_file("torchvision/_C_stable.pyd", imports=asks("aoti_torch_empty", of="torch_cpu.dll")),
        elf_file("demo/a.abi3.so", exports=symbols("PyInit_a")),
    ],
)
def test_libraries_and_whole_extensions_are_fine(subject: Any) -> None:
    assert find_uninitialised(subject) == []


def test_a_library_that_a_java_virtual_machine_loads_needs_no_init_function() -> None:
    """As pemja's pemja_core; a file that exports another module's function is no such library."""
    uses, path = symbols("PyLong_FromLong"), "demo/a.cpython-39-x86_64-linux-gnu.so"
    levels = []
    for exports in (("JNI_OnLoad",), ("Java_demo_A_run",)):
        (problem,) = find_uninitialised(elf_file(path, exports=symbols(*exports), imports=uses))
        assert isinstance(problem, Problem)
        levels.append(problem.level)
    assert levels == [Level.WARNING, Level.ERROR]
    both = elf_file(path, exports=symbols("JNI_OnLoad", "PyInit_a"), imports=uses)
    assert find_uninitialised(both) == []


def test_a_module_imported_by_its_path_needs_the_function_of_the_name_given_there() -> None:
    """PyNvVideoCodec chooses between two files, and imports either as _PyNvVideoCodec."""
    subject = elf_file("demo/a_130.cpython-312-x86_64-linux-gnu.so", exports=symbols("PyInit__a"))
    assert find_uninitialised(subject, code=CodeNames(modules=frozenset({"demo._a"}))) == []
    assert say(find_uninitialised(subject, code=CodeNames(modules=frozenset({"_b"})))) == [
        "exports PyInit__a instead of PyInit_a_130"
    ]


HELPER = elf_file("demo/_inject.abi3.so", imports=symbols("PyGILState_Ensure"))


@pytest.mark.parametrize(
    "other",
    [
        library("demo/a.so", HELPER.file_name),
        elf_file("demo/a.so", opened=OpenedNames(names=(HELPER.file_name,))),
    ],
)
def test_a_library_that_another_object_needs_or_opens_by_name_is_no_module(
    other: ObjectFile,
) -> None:
    assert say(find_uninitialised(HELPER, elf_file("demo/b.so"))) == [
        "does not export PyInit__inject"
    ]
    assert find_uninitialised(HELPER, other) == []


def test_a_library_that_the_package_s_code_spells_out_is_no_module() -> None:
    assert find_uninitialised(HELPER, code=CodeNames(named=frozenset({HELPER.path}))) == []
    assert find_uninitialised(HELPER, code=CodeNames(assembled=frozenset({HELPER.path}))) == []
    assert find_uninitialised(HELPER, code=CodeNames(named=frozenset({"demo/other.so"}))) != []


def test_a_package_that_is_a_module_itself_has_the_function_of_its_name() -> None:
    path = "apsw/__init__.cpython-313-x86_64-linux-gnu.so"
    assert find_uninitialised(elf_file(path, exports=symbols("PyInit_apsw"))) == []
    assert say(find_uninitialised(elf_file(path, exports=symbols("PyInit___init__")))) == [
        "exports PyInit___init__ instead of PyInit_apsw"
    ]


FREE = "demo/a.cpython-314t-x86_64-linux-gnu.so"
PHASES = "PyModuleDef_Init"
NO_SLOT = "has no slot Py_mod_gil with Py_MOD_GIL_NOT_USED"
NO_CALL = "calls PyModule_Create without PyUnstable_Module_SetGIL and Py_MOD_GIL_NOT_USED"


def judge_gil(
    *calls: str, slot: bool | None = None, path: str = FREE, tags: str = "cp314-cp314t"
) -> list[Finding]:
    module = elf_file(path, imports=asks(*calls), exports=symbols("PyInit_a"), gil_not_used=slot)
    package = wheel(f"demo-1.0-{tags}-manylinux_2_17_x86_64.whl", objects=(module,))
    return list(gil_enabled_by_module(package))


@pytest.mark.parametrize(
    ("slot", "calls", "state"),
    [
        (False, [PHASES, "PyUnstable_Module_SetGIL"], NO_SLOT),  # as in modules of Cython
        (False, [PHASES], NO_SLOT),
        (None, ["PyModule_Create2"], NO_CALL),
    ],
)
def test_a_module_that_enables_the_gil_is_named(
    slot: bool | None, calls: list[str], state: str
) -> None:
    assert [(each.path, each.sentence) for each in judge_gil(*calls, slot=slot)] == [
        (
            FREE,
            f"{state}, so a free-threaded Python enables the GIL for the whole program when it "
            "imports the module: state it once the module is ready",
        )
    ]
    assert judge_gil(*calls, PHASES, slot=True) == []  # it needs none, and may create submodules


@pytest.mark.parametrize(
    "calls",
    [
        [PHASES],  # pybind11 fills the slots when the module is imported
        [PHASES, "PyModule_Create2"],
        ["PyModule_Create2", "PyUnstable_Module_SetGIL"],  # PyO3 0.23 calls it with either value
        [],  # cffi's backend creates the module
    ],
)
def test_what_code_states_at_run_time_is_not_inspected(calls: list[str]) -> None:
    assert judge_gil(*calls) == [
        NotInspected(path=FREE, sentence="its code decides whether it needs the GIL")
    ]


@pytest.mark.parametrize(
    ("path", "tags"),
    [
        ("demo/a.so", "cp314-cp314t"),
        ("demo/a.abi3t.so", "cp315-abi3.abi3t"),
        ("demo/a.so", "cp315-abi3.abi3t"),
    ],
)
def test_modules_of_any_name_that_a_free_threaded_python_imports_count(
    path: str, tags: str
) -> None:
    assert [type(each) for each in judge_gil(PHASES, slot=False, path=path, tags=tags)] == [Problem]


@pytest.mark.parametrize(
    ("path", "tags"),
    [
        ("demo/a.cpython-314-x86_64-linux-gnu.so", "cp314-cp314"),
        ("demo/a.cpython-314-x86_64-linux-gnu.so", "cp314-cp314t"),
        ("demo/a.abi3.so", "cp315-abi3.abi3t"),
        ("demo/a.so", "cp314-cp314"),
        ("demo/liba.so.1", "cp314-cp314t"),
    ],
)
def test_modules_for_pythons_with_the_gil_do_not_count(path: str, tags: str) -> None:
    with pytest.raises(NotApplicable, match="no extension module for free-threaded Pythons"):
        judge_gil("PyModule_Create2", path=path, tags=tags)
