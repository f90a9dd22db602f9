"""What lies in a package: each check fires on the fault it names and is quiet without it."""

from __future__ import annotations

import ntpath
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.checks.contents import (
    bytecode_in_wheel,
    case_collision,
    debug_information,
    duplicate_library,
    environment_replaced,
    git_lfs_pointer,
    missing_license_file,
    name_invalid_on_windows,
    program_not_executable,
    stray_top_level_folder,
    version_control_litter,
    wheel_too_large,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Claims,
    CodeNames,
    ElfFile,
    Finding,
    Format,
    InstalledPackage,
    Kind,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    PointerFiles,
    Problem,
    UnreadObject,
)
from fixtures.linking import library, link, target
from fixtures.values import elf_file, member, only, pe_file, wheel


def test_bytecode_is_a_problem() -> None:
    folder = member("demo/x.pyc/", mode=0o40755)
    others = [member("demo/__pycache__/a.cpython-311.pyc"), member("demo/a.py"), folder]
    assert list(bytecode_in_wheel(wheel(members=others))) == [
        Problem(
            path="demo/__pycache__/a.cpython-311.pyc",
            sentence="is compiled for one interpreter; installers compile their own",
        )
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("demo/.gitignore", ".gitignore"),
        ("demo/.git/config", ".git"),
        ("demo/.DS_Store", ".DS_Store"),
        ("demo/CVS/Entries", "CVS"),
        ("demo/templates/.DS_Store", ".DS_Store"),
        ("demo/templates/.git/config", ".git"),
        ("demo/.git/.gitignore", ".git"),
    ],
)
def test_litter_is_a_problem(path: str, name: str) -> None:
    package = wheel(members=[member(path)])
    assert list(version_control_litter(package)) == [
        Problem(path=path, sentence=f"{name} does not belong in a built package")
    ]
    with pytest.raises(NotApplicable, match="is not what users get"):
        list(version_control_litter(replace(package, claims=Claims(partial=True))))


@pytest.mark.parametrize(
    "path",
    [
        *("cmake/CPack.DS_Store.in", "demo/.git_archival.txt", "demo/git.py", "demo/.gitlab.py"),
        *("demo/template/.gitignore", "demo/Templates/new/a/.gitkeep"),  # of new projects
    ],
)
def test_names_that_resemble_litter_and_files_for_git_in_templates_are_quiet(path: str) -> None:
    assert list(version_control_litter(wheel(members=[member(path)]))) == []


def test_what_every_source_tree_has_is_a_problem_at_the_top() -> None:
    package = wheel(members=[member("tests/a.py"), member("tests/b.py"), member("test.py")])
    assert list(stray_top_level_folder(package)) == [
        Problem(
            path="test.py",
            sentence="1 file at the top level of site-packages, in collision with any "
            "other project's test.py",
        ),
        Problem(
            path="tests",
            sentence="2 files at the top level of site-packages, in collision with any "
            "other project's tests",
        ),
    ]


@pytest.mark.parametrize("folder", ["docs", "examples", "scripts", "build", "data", "lib"])
def test_such_a_folder_is_a_problem_but_where_the_project_is_called_so(folder: str) -> None:
    members = [member(f"{folder}/__init__.py")]
    assert len(list(stray_top_level_folder(wheel(members=members)))) == 1
    assert (
        list(stray_top_level_folder(wheel(f"{folder}-1.0-py3-none-any.whl", members=members))) == []
    )


@pytest.mark.parametrize(
    "path",
    ["demo/tests/a.py", "demo/data/a", "tests.txt", "tester/a.py", "../../../share/doc/demo/a"],
)
def test_such_folders_elsewhere_are_quiet(path: str) -> None:
    assert list(stray_top_level_folder(wheel(members=[member(path)]))) == []


def test_an_init_file_a_text_or_a_source_in_no_folder_is_a_problem() -> None:
    package = wheel(members=map(member, ("__init__.py", "demo/__init__.py")))
    sentence = "no import executes it at the top level of site-packages, only in a folder"
    assert list(stray_top_level_folder(package)) == [Problem(path="__init__.py", sentence=sentence)]
    others = wheel(members=map(member, ("LICENSE", "mdb.c", "demo/mdb.c", "demo.jar")))
    assert [each.path for each in stray_top_level_folder(others)] == ["LICENSE", "mdb.c"]


@pytest.mark.parametrize(
    ("platform", "partial", "kind"),
    [
        ("any", False, Problem),
        ("manylinux_2_17_x86_64", False, Note),  # nobody has macOS there
        ("manylinux_2_17_x86_64.win_amd64", False, Problem),
        ("manylinux_2_17_x86_64.win_amd64", True, Note),  # a folder on Linux
        ("win_amd64", True, Problem),
    ],
)
def test_names_that_differ_in_case_alone_are_a_problem(
    platform: str, partial: bool, kind: type[Problem | Note]
) -> None:
    paths = ("demo/a.py", "demo/A.py", "demo/b.py", "demo/b.py", "Demo2/a.py")
    package = wheel(f"demo-1.0-py3-none-{platform}.whl", members=map(member, paths))
    package = replace(package, claims=replace(package.claims, partial=partial))
    sentence = "differs only in case from demo/A.py: macOS and Windows keep only one"
    assert list(case_collision(package)) == [kind(path="demo/a.py", sentence=sentence)]


OVERWRITTEN = "overwrites the interpreter if pip installs it; uv refuses to"
FINDS_ENVIRONMENT = "takes the place of the pyvenv.cfg by which Python finds the environment"
SITE = "demo-1.0.data/data/lib/python3.11/site-packages/"
BELIEVE = "makes installers believe"
FOR_ANY = "demo-1.0-py3-none-any.whl"
FOR_WINDOWS = "demo-1.0-cp311-cp311-win_amd64.whl"


@pytest.mark.parametrize("file_name", [FOR_ANY, FOR_WINDOWS])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("aux.py", "Windows opens the device AUX by this name: pip aborts there"),
        ("con", "Windows opens the device CON by this name: pip aborts there"),
        ("Com1 .tar.gz", "Windows opens the device COM1 by this name: pip aborts there"),
        ("x?.py", "no name on Windows may contain '?': pip aborts there"),
        ("a<b>.txt", "no name on Windows may contain '<': pip aborts there"),
        ("a\x07.txt", "no name on Windows may contain '\\x07': pip aborts there"),
        ("x.", "Windows drops the '.' at the end: it installs as 'x'"),
        ("x ", "Windows drops the ' ' at the end: it installs as 'x'"),
        (
            "a:b.py",
            "Windows writes it into an alternate data stream of 'a': nothing finds it",
        ),
    ],
)
def test_a_name_that_windows_cannot_have_is_a_problem(
    name: str, sentence: str, file_name: str
) -> None:
    package = wheel(file_name, members=[member(f"demo/{name}")])
    assert list(name_invalid_on_windows(package)) == [
        Problem(path=f"demo/{name}", sentence=sentence)
    ]


def test_a_folder_that_windows_cannot_have_is_reported_once() -> None:
    package = wheel(FOR_ANY, members=[member("demo/nul/a.py"), member("demo/nul/b.py")])
    sentence = "Windows opens the device NUL by this name: pip aborts there"
    assert list(name_invalid_on_windows(package)) == [Problem(path="demo/nul", sentence=sentence)]
    top = wheel(FOR_ANY, members=[member("nul/a.py")])
    assert list(name_invalid_on_windows(top)) == [Problem(path="nul", sentence=sentence)]
    with pytest.raises(NotApplicable):  # python-rtmidi 1.5.8 for Linux has "python_rtmidi."
        list(name_invalid_on_windows(wheel(members=[member("demo./aux.py")])))


@pytest.mark.parametrize("name", ["auxiliary.py", "com0", "a.b.c", ".x", "x y.py", "ü.py", "..x"])
def test_names_that_windows_can_have_are_quiet(name: str) -> None:
    assert list(name_invalid_on_windows(wheel(FOR_ANY, members=[member(f"demo/{name}")]))) == []


@pytest.mark.parametrize("name", ["C:x", "../x.py", "demo/./x.py", "demo//x.py", "demo\\nul?"])
def test_drives_and_odd_parts_are_reported_by_the_check_of_escaping_names_alone(name: str) -> None:
    assert list(name_invalid_on_windows(wheel(FOR_ANY, members=[member(name)]))) == []


def test_a_command_becomes_a_file_that_windows_cannot_have() -> None:
    points = tuple((group, "a*b", "demo:f") for group in ("console_scripts", "other"))
    problem = only(Problem, name_invalid_on_windows(wheel(FOR_ANY, entry_points=points)))
    assert (
        problem.sentence == "the command a*b: no name on Windows may contain '*': pip aborts there"
    )


@pytest.mark.parametrize(
    ("name", "path", "sentence"),
    [
        ("scripts/python", "scripts/python", OVERWRITTEN),
        ("scripts/Python3.11.exe", "scripts/Python3.11.exe", OVERWRITTEN),
        ("data/bin/pypy3", "data/bin/pypy3", OVERWRITTEN),
        ("data/pyvenv.cfg", "data/pyvenv.cfg", FINDS_ENVIRONMENT),
        ("scripts/pyvenv.cfg", "scripts/pyvenv.cfg", FINDS_ENVIRONMENT),
    ],
)
def test_a_file_of_the_environment_is_replaced(name: str, path: str, sentence: str) -> None:
    package = wheel(members=[member(f"demo-1.0.data/{name}")])
    assert list(environment_replaced(package)) == [
        Problem(path=f"demo-1.0.data/{path}", sentence=sentence)
    ]


@pytest.mark.parametrize("folder", ["", "demo-1.0.data/purelib/", "demo-1.0.data/platlib/", SITE])
@pytest.mark.parametrize(
    ("path", "names", "sentence"),
    [
        ("pip", ("__init__.py", "x.py"), "overwrites the package pip, which pip installs"),
        (
            "_distutils_hack",
            ("__init__.py",),
            "overwrites the package _distutils_hack, which setuptools installs",
        ),
        ("pip-99.0.dist-info", ("METADATA", "RECORD"), f"{BELIEVE} that pip-99.0 is installed"),
        ("other.egg-info", (), f"{BELIEVE} that other is installed"),
    ],
)
def test_what_belongs_to_another_project_is_reported_once(
    folder: str, path: str, names: tuple[str, ...], sentence: str
) -> None:
    paths = [f"{path}/{name}" for name in names] or [path]
    package = wheel(members=[member(f"{folder}{each}") for each in paths])
    assert list(environment_replaced(package)) == [Problem(path=path, sentence=sentence)]


@pytest.mark.parametrize(
    "name",
    [
        "demo-1.0.data/scripts/python-zig",  # ziglang 0.17.1
        "demo-1.0.data/scripts/pip-review",
        "demo-1.0.data/headers/pyvenv.cfg",
        "demo/pyvenv.cfg",
        "demo/_vendor/other-1.0.dist-info/METADATA",  # setuptools, ray
        "demo-0.9.egg-info/PKG-INFO",
        "pip/extra.py",  # overwrites nothing
        "pip.py",  # the package pip comes first
    ],
)
def test_names_that_replace_nothing_are_quiet(name: str) -> None:
    assert list(environment_replaced(wheel(members=[member(name)]))) == []
    owner = wheel("setuptools-84.2.1-py3-none-any.whl", members=[member("setuptools/__init__.py")])
    assert list(environment_replaced(owner)) == []


@pytest.mark.skipif(not hasattr(ntpath, "isreserved"), reason="ntpath.isreserved is new in 3.13")
def test_python_itself_calls_the_same_names_reserved() -> None:
    stems = ("con", "COM9", "lpt²", "com0", "conin$", "ab")
    ends = ("", ".", " ", ".py", " .py", ":x", "?", "x", "\x1f", "\x7f")
    names = [f"{stem}{end}" for stem in stems for end in ends]
    package = wheel(FOR_ANY, members=[member(f"demo/{name}") for name in names])
    found = {problem.path for problem in name_invalid_on_windows(package)}
    assert found == {f"demo/{name}" for name in names if ntpath.isreserved(name)}


SAME = b"x" * 200_000


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("liba.so", "libb.so"), Problem),
        (("liba-0a1b2c3d.so.1", "liba.so.1"), Problem),  # grafted, and left from the build
        (("hook.abi3.so", "hook_cu12.abi3.so"), Problem),  # torch_memory_saver 0.0.10
        (("liba.so", "liba.so.1", "liba.so.1.2"), Note),  # tbb 2023.2
        (("libpng.dylib", "libpng16.16.dylib", "libpng16.dylib"), Note),  # eccodeslib 2.50
        (("protoc", "protoc-3.13.0.0"), Note),  # torch 2.13
        (("libPlugin.so", "libPlugin.so.24.0git"), Note),  # triton 3.9
    ],
)
def test_one_library_under_several_names_is_a_problem_unless_they_are_its_versions(
    names: tuple[str, ...], kind: type[Problem | Note]
) -> None:
    paths = [f"demo/{name}" for name in names]
    package = wheel(
        members=[member(path, SAME) for path in paths], objects=[elf_file(path) for path in paths]
    )
    same = f"is a copy of {paths[0]} (200000 bytes): users store both"
    found = list(duplicate_library(package, package, package))
    assert found == [kind(path=path, sentence=same) for path in paths[1:]]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("$ORIGIN", "$ORIGIN", Note),
        ("$ORIGIN", "$ORIGIN/../a", Problem),
        ("$ORIGIN/../b", "$ORIGIN", Problem),
    ],
)
def test_a_copy_in_another_folder_is_kept_on_purpose_if_both_are_loaded(
    one: str, other: str, kind: type[Problem | Note]
) -> None:
    objects = [
        library("a/_a.abi3.so", "libx.so", runpath=(one,)),
        library("b/_b.abi3.so", "libx.so", runpath=(other,)),
        library("a/libx.so", name="libx.so"),
        library("b/libx.so", name="libx.so"),
    ]
    same = [member(path, SAME) for path in ("a/libx.so", "b/libx.so")]
    package, linkage = wheel(members=same, objects=objects), link(*objects)
    assert only(kind, duplicate_library(package, package, linkage)).path == "b/libx.so"


def test_small_copies_other_files_and_unknown_hashes_are_quiet() -> None:
    objects = [elf_file("demo/a.so"), elf_file("demo/b.so")]
    small = [member("demo/a.so", b"x"), member("demo/b.so", b"x")]
    texts = [member("demo/a.txt", SAME), member("demo/b.txt", SAME)]
    both = wheel(members=[*small, *texts], objects=objects)
    assert list(duplicate_library(both, wheel(), wheel())) == []
    package = wheel(members=small, objects=objects)
    assert len(list(duplicate_library(package, package, package, minimum=1))) == 1
    unread = UnreadObject(path="demo/a.so", format=Format.PE, reason="no")
    broken = MalformedObject(path="demo/b.so", format=Format.ELF, offset=0, reason="cut")
    copies = wheel(members=small, unread=(unread,), malformed=(broken,))
    assert len(list(duplicate_library(copies, package, package, minimum=1))) == 1
    for size, count in ((99_999, 0), (100_000, 1)):
        alike = [member(each.path, b"x" * size) for each in small]
        large = wheel(members=alike, objects=objects)
        assert len(list(duplicate_library(large, package, package))) == count
    unknown = tuple(member(item.path, SAME, sha256="") for item in small)
    assert list(duplicate_library(replace(package, members=unknown), package, package)) == []


@pytest.mark.parametrize(
    ("name", "requirement", "found"),
    [
        ("libcudnn.so.9", "nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'", 1),
        ("libcudnn.so.9", "nvidia-cudnn-cu12; platform_system == 'Windows'", 0),
        ("libcudnn.so.9", "nvidia-cudnn-cu12; extra == 'all'", 0),
        ("libcudnn.so.9", "nvidia-cublas-cu12", 0),
        ("libcudnn.so.8", "nvidia-cudnn-cu12", 0),
        ("libcudnn-0a1b2c3d.so.9", "nvidia-cudnn-cu12", 0),  # grafted: no other library is meant
    ],
)
def test_a_library_that_a_required_wheel_has_is_a_second_copy(
    name: str, requirement: str, found: int
) -> None:
    package = wheel(
        objects=(elf_file(f"demo/lib/{name}"), elf_file("demo/lib/libdemo.so")),
        metadata=(("Requires-Dist", requirement),),
    )
    problems = list(duplicate_library(package, target(), package))
    assert len(problems) == found
    for problem in problems:
        assert problem.path == f"demo/lib/{name}"
        assert problem.sentence.startswith(
            "is in nvidia-cudnn-cu12, too, which the package requires"
        )
    assert list(duplicate_library(package, package, package)) == []


def test_a_package_over_the_limit_is_a_problem() -> None:
    assert list(wheel_too_large(wheel(size=11), limit=10)) == [
        Problem(sentence="is 11 bytes, but the limit is 10")
    ]
    assert list(wheel_too_large(wheel(size=10), limit=10)) == []
    assert only(NotInspected, wheel_too_large(wheel(size=10)))  # no profile sets a limit
    assert not wheel_too_large.enabled
    with pytest.raises(NotApplicable, match="is not a file"):
        list(wheel_too_large(InstalledPackage(path=Path("demo-1.0.dist-info"), size=11), limit=10))


def test_packages_have_limits_by_their_names_of_which_the_first_counts() -> None:
    limits = {"*+cpu-*": 5, "*-macosx_*": 20, "*": 30}
    small = wheel("demo-1.0+cpu-cp311-cp311-macosx_11_0_arm64.whl", size=11)
    large = wheel("demo-1.0-cp311-cp311-macosx_11_0_arm64.whl", size=11)
    assert list(wheel_too_large(small, limit=10, limits=limits)) == [
        Problem(sentence="is 11 bytes, but the limit is 5")
    ]
    assert list(wheel_too_large(large, limit=10, limits=limits)) == []


def test_debug_information_is_told_when_asked_for() -> None:
    assert len(list(debug_information(elf_file(debug_information=True)))) == 1
    assert len(list(debug_information(pe_file(debug_information=True)))) == 1
    assert list(debug_information(elf_file())) == []


def judge_program(path: str, mode: int, code: CodeNames, **fields: Kind) -> list[Finding]:
    program: ElfFile = elf_file(path, **{"kind": Kind.EXECUTABLE, **fields})
    package = wheel(objects=[program], members=[member(path, mode=mode)])
    return list(program_not_executable(program, package, code))


@pytest.mark.parametrize(
    ("path", "code", "level"),
    [
        ("demo/tool", CodeNames(named=frozenset({"demo/tool"})), Level.ERROR),
        ("demo/tool", CodeNames(guided=frozenset({"demo/tool"})), Level.ERROR),
        ("demo/bin/tool", CodeNames(), Level.ERROR),
        ("bin/tool", CodeNames(), Level.ERROR),  # of .data/scripts: pip sets no bit there either
        ("demo/tool", CodeNames(), Level.WARNING),
    ],
)
def test_a_program_without_its_executable_bit(path: str, code: CodeNames, level: Level) -> None:
    sentence = "is a program without the executable bit (0644): it cannot be started"
    assert judge_program(path, 0o100644, code) == [
        Problem(path=path, sentence=sentence, level=level)
    ]
    setting = replace(code, changes_modes=True)  # the package may set the bit itself
    assert only(Note, judge_program(path, 0o100644, setting))


@pytest.mark.parametrize(
    ("path", "mode", "kind"),
    [
        ("demo/tool", 0o100755, Kind.EXECUTABLE),
        ("demo/tool", 0o100645, Kind.EXECUTABLE),
        ("demo/tool", 0o100744, Kind.EXECUTABLE),
        ("demo/tests/tool", 0o100644, Kind.EXECUTABLE),
        ("demo/libdemo.so", 0o100644, Kind.EXECUTABLE),
        ("demo/tool", 0o100644, Kind.SHARED),
    ],
)
def test_what_nobody_starts_without_the_bit_is_quiet(path: str, mode: int, kind: Kind) -> None:
    code = CodeNames(named=frozenset({path}))
    assert judge_program(path, mode, code, kind=kind) == []


def test_a_pointer_of_git_lfs_is_a_problem_and_noted_among_tests() -> None:
    pointers = PointerFiles(
        paths=("demo/a.ttf", "demo/tests/b.ttf"), unread=(("demo/c", "it cannot be read"),)
    )
    sentence = "is a git-lfs pointer: its content was not packed"
    assert list(git_lfs_pointer(wheel(), pointers)) == [
        Problem(path="demo/a.ttf", sentence=sentence),
        Note(path="demo/tests/b.ttf", sentence=sentence),
        NotInspected(path="demo/c", sentence="it cannot be read"),
    ]
    assert list(git_lfs_pointer(wheel(), PointerFiles())) == []
    reason = "no magic number"  # malformed-object reports it
    library = MalformedObject(path="demo/a.so", format=Format.ELF, reason=reason, offset=0)
    package = wheel(malformed=(library,))
    assert list(git_lfs_pointer(package, PointerFiles(paths=("demo/a.so",)))) == []


METADATA = (("Metadata-Version", "2.4"), ("License-File", "NOTICE"))


def test_a_license_file_that_was_not_packed_is_a_problem() -> None:
    folder = "demo-1.0.dist-info"
    lost = wheel(metadata=METADATA, members=[member(f"{folder}/NOTICE")])
    assert list(missing_license_file(lost)) == [
        Problem(
            path=f"{folder}/METADATA",
            sentence="names the license file NOTICE, but the wheel has no "
            f"{folder}/licenses/NOTICE",
        )
    ]
    packed = wheel(metadata=METADATA, members=[member(f"{folder}/licenses/NOTICE")])
    assert list(missing_license_file(packed)) == []


@pytest.mark.parametrize("version", ["2.1", "2.3", "", "x"])
def test_older_metadata_has_no_place_for_license_files(version: str) -> None:
    package = wheel(metadata=(("Metadata-Version", version), METADATA[1]))
    assert list(missing_license_file(package)) == []
