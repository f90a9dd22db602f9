"""The archive and its RECORD: each check fires on the fault it names and is quiet without it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from binary_checks.checks.archive import (
    ambiguous_archive,
    duplicate_member_name,
    escaping_member_name,
    record_is_wrong,
    symlink_in_wheel,
    uninstallable_member,
    unreadable_member,
)
from binary_checks.model import Claims, Level, NotInspected, Problem, RecordRow, Wheel
from fixtures.values import elf_file, member, only, record_row, wheel

RECORD = "demo-1.0.dist-info/RECORD"


def test_faults_of_the_archive_and_its_members_are_problems() -> None:
    broken = member("demo/a.py", faults=("its CRC-32 is wrong", "it is encrypted"))
    package = wheel(members=[broken], archive_faults=("it lacks its last block",))
    assert list(unreadable_member(package)) == [
        Problem(sentence="it lacks its last block"),
        Problem(path="demo/a.py", sentence="its CRC-32 is wrong"),
        Problem(path="demo/a.py", sentence="it is encrypted"),
    ]
    fault = "4 bytes follow the end of the archive"  # tools may read another archive
    ambiguous = replace(wheel(), ambiguities=(fault,))
    assert list(ambiguous_archive(ambiguous)) == [Problem(sentence=fault)]
    assert list(ambiguous_archive(wheel())) == []


def test_a_link_out_of_a_folder_on_disk_is_not_inspected() -> None:
    link = replace(member("include/x"), target="/usr/x", faults=("it links to /usr/x",))
    folder = replace(wheel(members=[link]), claims=Claims(partial=True))
    assert list(unreadable_member(folder)) == [
        NotInspected(path="include/x", sentence="it links to /usr/x")
    ]
    within = replace(link, target="../x", faults=("it links to ../x",))
    for package in (wheel(members=[link]), replace(folder, members=(within,))):
        assert only(Problem, unreadable_member(package))


def test_a_sound_archive_is_quiet() -> None:
    package = wheel(members=[member(), member("demo/", mode=0o40755)])
    checks = (unreadable_member, duplicate_member_name, escaping_member_name, symlink_in_wheel)
    assert [finding for check in checks for finding in check(package)] == []
    link = member("demo/b.so", b"a.so", mode=0o120777)
    assert list(symlink_in_wheel(wheel(members=[link]))) == [
        Problem(path="demo/b.so", sentence="is a symbolic link")
    ]


def test_two_members_that_install_to_one_place_are_a_problem() -> None:
    first, moved = member("demo/a.py", b"1"), "demo-1.0.data/platlib/demo/a.py"
    twice = wheel(members=[first, member("demo/a.py", b"2")])
    assert list(duplicate_member_name(twice)) == [
        Problem(path="demo/a.py", sentence="2 members have this name")
    ]
    copy = member("demo/a.py", b"2", archive_name=moved)
    assert list(duplicate_member_name(wheel(members=[first, copy]))) == [
        Problem(path=moved, sentence="installs to demo/a.py, as demo/a.py does")
    ]
    same = member("demo/a.py", b"1", archive_name=moved)  # as delvewheel leaves them
    problem = only(Problem, duplicate_member_name(wheel(members=[first, same])))
    assert problem.level is Level.WARNING
    assert problem.sentence.endswith(", with the same content")
    unread = [replace(each, sha256="") for each in (first, same)]
    problem = only(Problem, duplicate_member_name(wheel(members=unread)))
    assert problem.level is Level.ERROR


@pytest.mark.parametrize("name", ["demo//a.py", "./demo/a.py", "demo/./a.py"])
def test_names_that_differ_in_what_installers_drop_are_one_place(name: str) -> None:
    package = wheel(members=[member("demo/a.py", b"1"), member(name, b"2")])
    assert list(duplicate_member_name(package)) == [
        Problem(path=name, sentence="installs to demo/a.py, as demo/a.py does")
    ]


def test_a_file_by_the_name_of_its_folder_is_a_problem() -> None:
    assert list(escaping_member_name(wheel(members=[member(".")]))) == [
        Problem(
            path=".", sentence="its name stands for the folder that the archive is unpacked into"
        )
    ]
    warning = only(Problem, escaping_member_name(wheel(members=[member("./", mode=0o40755)])))
    assert warning.level is Level.WARNING


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("/etc/passwd", "its name is absolute"),
        ("demo/../../x", "its name contains .."),
        ("..", "its name contains .."),
        ("demo\\x", "its name contains a backslash"),
        ("C:x", "its name begins with a drive letter"),
    ],
)
def test_a_name_that_leads_out_is_a_problem(name: str, sentence: str) -> None:
    assert list(escaping_member_name(wheel(members=[member(name)]))) == [
        Problem(path=name, sentence=sentence)
    ]


@pytest.mark.parametrize("name", ["demo//x", "./demo/x", ""])
def test_a_name_that_installers_mend_is_a_warning(name: str) -> None:
    sentence = "its name has an empty or . component"
    assert list(escaping_member_name(wheel(members=[member(name)]))) == [
        Problem(path=name, sentence=sentence, level=Level.WARNING)
    ]


def test_a_place_outside_of_site_packages_is_no_escape() -> None:
    script = member("bin/x", archive_name="demo-1.0.data/scripts/x")
    no_drives = [member("demo/..x"), member("1:x"), member("é:x"), member("demo/c:x")]
    assert list(escaping_member_name(wheel(members=[script, *no_drives]))) == []


def with_rows(*rows: RecordRow) -> Wheel:
    """A wheel of one member, with these rows in place of the member's."""
    right = wheel(members=[member()]).record
    assert right is not None
    others = tuple(row for row in right if row.path != "demo/__init__.py")
    return wheel(members=[member()], record=(*rows, *others))


def test_a_right_record_is_quiet() -> None:
    folder = member("demo/", mode=0o40755)
    signature = member("demo-1.0.dist-info/RECORD.jws", b"s")
    package = wheel(members=[member(), folder])
    assert list(record_is_wrong(package)) == []
    row = record_row(member())
    assert list(record_is_wrong(with_rows(row, RecordRow(path="demo/")))) == []
    assert list(record_is_wrong(with_rows(replace(row, size=None)))) == []
    right = wheel().record
    assert list(record_is_wrong(wheel(members=[signature], record=right))) == []


def test_a_record_that_is_missing_or_cannot_be_read_is_a_problem() -> None:
    fault = "line 2: 2 columns instead of three"
    for package, sentence in (
        (wheel(record=None), "there is no RECORD"),
        (wheel(record_faults=(fault,)), fault),
    ):
        assert list(record_is_wrong(package)) == [Problem(path=RECORD, sentence=sentence)]


def test_a_row_without_a_file_and_a_file_without_a_row_are_problems() -> None:
    gone = RecordRow(path="demo/gone.py", hash="sha256=x", size=1)
    assert list(record_is_wrong(with_rows(gone))) == [
        Problem(path="demo/gone.py", sentence="RECORD lists it, but the archive lacks it"),
        Problem(
            path="demo/__init__.py", sentence="the archive has it, but RECORD does not list it"
        ),
    ]
    row = record_row(member())
    assert list(record_is_wrong(with_rows(row, row))) == [
        Problem(path="demo/__init__.py", sentence="RECORD lists it 2 times", level=Level.WARNING)
    ]


DIGEST = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"


@pytest.mark.parametrize(
    ("hash_", "size", "sentence", "level"),
    [
        ("sha256=AAAA", 0, f"RECORD says sha256=AAAA, but the file has {DIGEST}", Level.ERROR),
        (f"sha256={DIGEST}", 7, "RECORD says 7 bytes, but the file has 0", Level.ERROR),
        ("", 0, "RECORD has no hash for it", Level.WARNING),
        ("md5=1B2M2Y8AsgTpgAmY7PhCfg", 0, "RECORD has md5, weaker than SHA-256", Level.WARNING),
    ],
)
def test_a_row_that_says_something_else_is_a_problem_and_one_that_proves_nothing_a_warning(
    hash_: str, size: int, sentence: str, level: Level
) -> None:
    row = RecordRow(path="demo/__init__.py", hash=hash_, size=size)
    assert list(record_is_wrong(with_rows(row))) == [
        Problem(path="demo/__init__.py", sentence=sentence, level=level)
    ]


def test_a_sound_library_that_was_changed_after_record_is_a_warning() -> None:
    """The libraries in eckitlib.libs: pip and uv install them, and they load."""
    changed = replace(member("demo.libs/libz-12ab34cd.so.1"), sha256="ab" * 32)
    row = RecordRow(path=changed.path, hash="sha256=x", size=changed.size)
    right = wheel(members=[changed])
    rows = [each for each in right.record or () if each.path != changed.path]
    package = replace(right, record=(row, *rows))
    assert only(Problem, record_is_wrong(package)).level is Level.ERROR
    sound = replace(package, objects=(elf_file(changed.path),))
    assert only(Problem, record_is_wrong(sound)).level is Level.WARNING
    rows = [
        replace(r, hash="sha256=x") if "/METADATA" in r.path else r for r in wheel().record or ()
    ]
    assert only(Problem, record_is_wrong(wheel(record=rows))).level is Level.WARNING


def test_hexadecimal_hashes_are_one_warning() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    row = RecordRow(path="demo/__init__.py", hash=f"sha256={digest}", size=0)
    assert list(record_is_wrong(with_rows(row))) == [
        Problem(
            path=RECORD,
            sentence="1 hash is hexadecimal, installers expect URL-safe base64 without padding",
            level=Level.WARNING,
        )
    ]


def test_a_member_that_was_not_read_or_has_a_hash_of_another_kind_is_not_inspected() -> None:
    row = RecordRow(path="demo/__init__.py", hash="sha512=x", size=0)
    assert only(NotInspected, record_is_wrong(with_rows(row)))
    package = wheel(members=[member()])
    unread = tuple(
        member(sha256="") if item.path == "demo/__init__.py" else item for item in package.members
    )
    assert only(NotInspected, record_is_wrong(replace(package, members=unread)))


def test_a_record_that_signs_itself_is_a_warning() -> None:
    right = wheel().record
    assert right is not None
    package = wheel(record=(*right[:-1], RecordRow(path=RECORD, hash="sha256=x", size=1)))
    assert list(record_is_wrong(package)) == [
        Problem(
            path=RECORD,
            sentence="RECORD has a hash of this file, which is written after RECORD",
            level=Level.WARNING,
        )
    ]


def test_backslashes_of_record_that_stand_for_slashes_are_one_warning() -> None:
    row = replace(record_row(member("demo/__init__.py")), path="demo\\__init__.py")
    problem = only(Problem, record_is_wrong(with_rows(row)))
    assert problem.level is Level.WARNING
    assert problem.sentence.startswith("1 path has ")


@pytest.mark.parametrize(
    ("names", "path", "fault"),
    [
        (("demo/a", "demo/a/b.py"), "demo/a", "is a file, and other members are below it"),
        (("demo/a", "demo/a-b", "demo/a/b"), "demo/a", "is a file, and other members are below it"),
        (("./demo//a", "demo/a/b"), "demo/a", "is a file, and other members are below it"),
        (("demo-1.0.data/evil/x.py",), "demo-1.0.data/evil/x.py", "is in a part of demo-1.0"),
        (("demo-1.0.data/x.py",), "demo-1.0.data/x.py", "is in a part of demo-1.0.data"),
        (("demo-1.0.data/scripts",), "demo-1.0.data/scripts", "is in a part of demo-1.0.data"),
        # uv 0.13 ends with "Unknown wheel data type: other"; pip leaves folders out.
        (("demo-1.0.data/other/",), "demo-1.0.data/other/", "is in a part of demo-1.0.data"),
        (("demo/" + 256 * "a",), "demo/" + 256 * "a", "has a name of 256 bytes"),
        (("demo/" + 200 * "é" + ".py",), "demo/" + 200 * "é" + ".py", "has a name of 403 bytes"),
        # uv 0.13.9: "Wheel contains an invalid entry (directory) in the `scripts` directory"
        (
            ("demo-1.0.data/scripts/sub/tool",),
            "demo-1.0.data/scripts/sub/tool",
            "is in a folder of demo-1.0.data/scripts: uv refuses",
        ),
        ((2_047 * "a/" + "ab",), 2_047 * "a/" + "ab", "has a path of 4,096 bytes"),
    ],
)
def test_what_no_installer_can_place(names: tuple[str, ...], path: str, fault: str) -> None:
    problem = only(Problem, uninstallable_member(wheel(members=map(member, names))))
    assert problem.path == path
    assert fault in problem.sentence


def test_windows_and_macos_count_the_units_of_utf_16_in_a_name() -> None:
    tags = "demo-1.0-cp312-cp312-win_amd64.macosx_11_0_arm64.whl"
    for name, count in ((255 * "é", 0), (256 * "é", 1), (128 * "\U0001f600", 1)):
        package = wheel(tags, members=[member(f"demo/{name}")])
        found = [problem.sentence for problem in uninstallable_member(package)]
        assert found == count * ["has a name of 256 UTF-16 units; file systems allow 255"]
    linux = "demo-1.0-cp312-cp312-win_amd64.manylinux_2_17_x86_64.whl"  # counts bytes
    assert only(Problem, uninstallable_member(wheel(linux, members=[member(255 * "é")])))


def test_what_installers_can_place_is_quiet() -> None:
    names = (
        "demo/a.py",
        "demo/a/b.py",
        f"{255 * 'a'}/b.py",
        "demo/a-b",
        "demo-1.0.data/scripts/",
        "demo-1.0.data/scripts/x",
        "demo/a/",
        "demo-1.0.data/",
        "demo-1.0.data/data/",
        "demo-1.0.data/data/a/b",
        2_047 * "a/" + "a",  # 4,095 bytes
    )
    assert list(uninstallable_member(wheel(members=map(member, names)))) == []
