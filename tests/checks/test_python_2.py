"""A package for a Python of which there are no data is judged by its loader and its tag."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.checks.windows import unbundled_runtime
from binary_checks.examination.judging import Verdict
from binary_checks.model import Dependency, Format, Linkage, Outcome, PythonClaim
from binary_checks.systems.interpreters import Interpreters, interpreter_of
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.values import pe_file, wheel

TAG = "cp27-cp27mu-manylinux1_x86_64"
OLD = (ElfSymbol("PyString_FromString"), ElfSymbol("Py_InitModule4_64"))


def judged(folder: Path, native: bytes, tag: str = TAG) -> Mapping[str, Verdict]:
    path = build_wheel(
        folder, members={"demo/__init__.py": "", "demo/_native.so": native}, tags=(tag,)
    )
    with examine(path) as examination:
        found = {verdict.check: verdict for verdict in judge(examination)}
        assert examination.unjudged == ""
    return found


def extension(*needed: str, imports: tuple[ElfSymbol, ...] = OLD) -> bytes:
    init = (ElfSymbol("init_native"),)
    return build_elf(exports=init, imports=imports, needed=(*needed, "libc.so.6"))


def test_only_its_c_api_is_not_inspected(tmp_path: Path) -> None:
    found = judged(tmp_path, extension())
    assert [check for check, verdict in found.items() if verdict.problems] == []
    gaps = {check for check, each in found.items() if each.outcome is Outcome.NOT_INSPECTED}
    assert gaps == {"undefined-symbol"}
    assert found["missing-library"].outcome is Outcome.PASSED


NARROW, WIDE = "PyUnicodeUCS2_Decode", "PyUnicodeUCS4_Decode"


@pytest.mark.parametrize(
    ("tag", "used", "has"),
    [
        ("cp27-cp27mu-manylinux1_x86_64", NARROW, WIDE),  # cx_Oracle 6.0, plyvel 1.0.1
        ("cp27-cp27m-manylinux1_x86_64", WIDE, NARROW),
        ("cp32-cp32mu-linux_x86_64", NARROW, WIDE),
        ("cp27-cp27mu-manylinux1_x86_64", WIDE, ""),
        ("cp27-cp27m-manylinux1_x86_64", NARROW, ""),
        ("cp27-none-manylinux1_x86_64", NARROW, ""),
        ("pp27-pypy_73-manylinux1_x86_64", NARROW, ""),
    ],
)
def test_its_strings_have_one_width(tmp_path: Path, tag: str, used: str, has: str) -> None:
    native = extension(imports=(*OLD, ElfSymbol(used), ElfSymbol("PyUnicode_Type")))
    problems = judged(tmp_path, native, tag)["undefined-symbol"].problems
    sentence = f"has 1 undefined symbol ({used}): a Python of {tag.split('-')[1]} has {has} instead"
    told = [each.sentence for each in problems if "UCS" in each.sentence]
    assert told == ([f"{sentence}; build the file with such a Python"] if has else [])


@pytest.mark.parametrize(
    ("exported", "sentence"),
    [
        ("init_native", ""),
        ("init_other", "exports init_other instead of init_native"),
        ("PyInit__native", "does not export init_native"),
    ],
)
def test_it_calls_init_functions_of_other_names(
    tmp_path: Path, exported: str, sentence: str
) -> None:
    native = build_elf(exports=(ElfSymbol(exported),), imports=OLD, needed=("libc.so.6",))
    found = judged(tmp_path, native)["missing-init-function"]
    assert [each.sentence for each in found.problems] == ([sentence] if sentence else [])


def test_a_library_that_registers_no_module_is_none(tmp_path: Path) -> None:
    native = build_elf(imports=(ElfSymbol("PyString_FromString"),), needed=("libc.so.6",))
    assert judged(tmp_path, native)["missing-init-function"].problems == ()


def test_a_symbol_or_a_library_that_it_lacks_is_an_error_all_the_same(tmp_path: Path) -> None:
    lacking = judged(tmp_path, extension(imports=(*OLD, ElfSymbol("gone"))))
    (problem,) = lacking["undefined-symbol"].problems
    assert "has 1 undefined symbol (gone)" in problem.sentence
    assert judged(tmp_path, extension("libgone.so.1"))["missing-library"].problems


@pytest.mark.parametrize("tag", ["cp27-cp27mu-manylinux1_x86_64", "cp36-cp36m-manylinux1_x86_64"])
def test_names_that_only_special_builds_export_are_an_error(tmp_path: Path, tag: str) -> None:
    native = extension(imports=(ElfSymbol("PyFPE_jbuf"), ElfSymbol("_Py_RefTotal")))
    (problem,) = judged(tmp_path, native, tag)["undefined-symbol"].problems
    assert problem.sentence.endswith(
        "(PyFPE_jbuf, _Py_RefTotal): only a Python configured with --with-fpectl or --with-pydebug "
        "has such a symbol; build the file with a plain Python"
    )


def test_an_old_python_3_may_have_names_that_the_oldest_known_one_lacks(tmp_path: Path) -> None:
    """Modules of falcon for 3.7 use _PyCFunction_FastCallKeywords, which 3.8 removed."""
    older = (ElfSymbol("_PyCFunction_FastCallKeywords"), ElfSymbol("PyModule_Create2"))
    init = (ElfSymbol("PyInit__native"),)
    native = build_elf(exports=init, imports=older, needed=("libc.so.6",))
    found = judged(tmp_path, native, "cp37-cp37m-manylinux1_x86_64")
    assert found["undefined-symbol"].outcome is Outcome.NOT_INSPECTED
    assert judged(tmp_path, native, "cp37-abi3-manylinux1_x86_64")["undefined-symbol"].problems
    native = build_elf(exports=init, imports=(*older, ElfSymbol("gone")), needed=("libc.so.6",))
    found = judged(tmp_path, native, "cp37-cp37m-manylinux1_x86_64")
    (problem,) = found["undefined-symbol"].problems
    assert "has 1 undefined symbol (gone)" in problem.sentence


@pytest.mark.parametrize(
    ("claims", "version"),
    [
        ([("cpython", (2, 7))], None),
        ([("cpython", (2, 7)), ("cpython", (3, 10))], (3, 10)),
        ([("cpython", (3, 5))], (3, 8)),
    ],
)
def test_the_oldest_python_of_which_there_are_data_counts(
    claims: list[tuple[str, tuple[int, int]]], version: tuple[int, int] | None
) -> None:
    found = interpreter_of(
        PythonClaim(name="", implementation=each, version=number) for each, number in claims
    )
    assert (found.version if found else None) == version
    assert ((2, 7), False) not in Interpreters()


@pytest.mark.parametrize(
    ("python", "name", "runtime", "found"),
    [
        ("cp27-cp27m", "_native.pyd", "MSVCR90.dll", 0),
        ("cp27-cp27m", "_native.pyd", "msvcr100.dll", 1),
        ("py27-none", "_native.dll", "msvcr90.dll", 0),
        ("cp34-cp34m", "_native.pyd", "msvcr100.dll", 0),
        ("cp27.cp34-none", "_native.pyd", "msvcr100.dll", 0),
        ("py3-none", "_native.cp34-win_amd64.pyd", "msvcr100.dll", 0),
        ("py3-none", "_native.cp35-win_amd64.pyd", "msvcr100.dll", 1),
        ("cp33-abi3", "_native.pyd", "msvcr100.dll", 1),
        ("cp311-cp311", "_native.pyd", "msvcr90.dll", 1),
        ("py3-none", "_native.pyd", "msvcr90.dll", 1),
    ],
)
def test_an_old_python_brings_the_c_runtime_of_its_compiler(
    python: str, name: str, runtime: str, found: int
) -> None:
    module = pe_file(f"demo/{name}", needed=(Dependency(name=runtime),))
    package = wheel(f"demo-1.0-{python}-win_amd64.whl", objects=(module,))
    linkage = Linkage(target="win_amd64", format=Format.PE)
    assert len(list(unbundled_runtime(package, linkage))) == found
