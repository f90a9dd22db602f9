"""What is found of a published file before its download, and what is left in peace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from packaging.utils import parse_wheel_filename

from binary_checks.checks.hardening import malformed_object
from binary_checks.checks.published import (
    broken_published_archive,
    index_metadata_differs,
    index_python_differs,
    index_size_differs,
    published_for_another_system,
    published_name_disagrees,
    published_record_differs,
    published_tags_disagree,
    stale_publication,
    yanked_file,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Finding,
    Format,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    Problem,
    Provenance,
    Publication,
    PublishedWheel,
    RecordRow,
    UnreadObject,
    Wheel,
)
from fixtures.values import elf_file, macho_file, member, only, pe_file, wheel

WHEEL = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def published(package: Wheel | None = None) -> PublishedWheel:
    """As ranges show it: most of its members have no hash."""
    package = package or wheel()
    unread = (
        replace(each, sha256="") if ".dist-info/" not in each.path else each
        for each in package.members
    )
    return PublishedWheel(package=replace(package, members=tuple(unread)), requests=2)


def publication(file_name: str = WHEEL, metadata: Any = None, **stated: Any) -> Publication:
    name, version, _, tags = parse_wheel_filename(file_name)
    return Publication(
        file_name=file_name,
        name=name,
        version=str(version),
        tags=tuple(tags),
        provenance=Provenance(kind="index", **stated),
        metadata=metadata,
    )


def sentences(findings: Iterable[Finding]) -> list[str]:
    return [each.sentence for each in findings if isinstance(each, Problem)]


def ago(days: int) -> datetime:
    return datetime.now(timezone.utc) - timedelta(days=days)


def test_a_healthy_file_is_left_in_peace() -> None:
    package = wheel(objects=[elf_file()], members=[member("demo/__init__.py", b"x = 1")], size=9000)
    file = published(package)
    listed = publication(
        size=9000, requires_python=None, metadata=package.metadata, uploaded=ago(3).isoformat()
    )
    assert sentences(broken_published_archive(file)) == []
    for check in (
        published_name_disagrees,
        published_tags_disagree,
        published_for_another_system,
        published_record_differs,
    ):
        assert list(check(file)) == []
    for compare in (index_size_differs, index_metadata_differs, index_python_differs):
        assert list(compare(file, listed)) == []
    assert list(yanked_file(listed)) == []
    assert list(stale_publication(listed)) == []


@pytest.mark.parametrize(("reason", "said"), [("", "no reason is given"), ("broken", "broken")])
def test_a_yanked_file_is_said_with_the_reason(reason: str, said: str) -> None:
    (sentence,) = sentences(yanked_file(publication(yanked=reason)))
    assert sentence.endswith(said)


def test_a_nightly_is_as_old_as_its_version_says() -> None:
    version = f"1.0.dev{ago(9):%Y%m%d}"
    listed = publication(WHEEL.replace("1.0", version), uploaded=ago(0).isoformat())
    (sentence,) = sentences(stale_publication(listed, days=8))
    assert sentence == f"it was built {ago(9):%Y-%m-%d}, 9 days ago; 8 are allowed"
    assert list(stale_publication(listed, days=9)) == []


@pytest.mark.parametrize(
    ("stated", "what"),
    [
        ({"uploaded": f"{ago(5):%Y-%m-%dT%H:%M:%S}.123456Z"}, "uploaded"),
        ({"modified": f"{ago(5):%a, %d %b %Y %H:%M:%S} GMT"}, "last modified"),
    ],
)
def test_without_a_date_in_its_version_its_upload_counts(stated: dict[str, str], what: str) -> None:
    listed = publication(**stated)
    assert sentences(stale_publication(listed)) == [
        f"it was {what} {ago(5):%Y-%m-%d}, 5 days ago; 3 are allowed"
    ]
    assert list(stale_publication(listed, days=5)) == []


@pytest.mark.parametrize("stated", [{}, {"modified": "yesterday"}, {"uploaded": "soon"}])
def test_a_file_of_which_nobody_says_the_day_is_not_inspected(stated: dict[str, str]) -> None:
    assert only(NotInspected, stale_publication(publication(**stated)))


def test_a_size_that_is_not_the_stated_one_is_found() -> None:
    file = published(wheel(size=2000))
    found = sentences(index_size_differs(file, publication(size=1000)))
    assert found == ["the index states 1000 bytes, but the file has 2000"]
    with pytest.raises(NotApplicable):
        list(index_size_differs(file, publication()))


def test_other_requirements_in_the_index_are_found_in_both_directions() -> None:
    own = (("Name", "demo"), ("Version", "1.0"), ("Requires-Dist", "numpy"), ("Summary", "a"))
    served = (("Name", "demo"), ("Version", "1.0"), ("requires-dist", "scipy"), ("Summary", "b"))
    file = published(wheel(metadata=own))
    assert sentences(index_metadata_differs(file, publication(metadata=served))) == [
        "only the index's METADATA says Requires-Dist: scipy",
        "only the wheel's METADATA says Requires-Dist: numpy",
    ]
    with pytest.raises(NotApplicable):
        list(index_metadata_differs(file, publication()))


@pytest.mark.parametrize(
    ("stated", "own", "expected"),
    [
        (">=3.9", ">=3.10", "the index states Requires-Python >=3.9, the wheel has >=3.10"),
        (">=3.9", "", "the index states Requires-Python >=3.9, the wheel has none"),
    ],
)
def test_another_requires_python_is_found(stated: str, own: str, expected: str) -> None:
    usual = (("Name", "demo"), ("Version", "1.0"))
    file = published(wheel(metadata=(*usual, ("Requires-Python", own)) if own else usual))
    listed = publication(requires_python=stated)
    assert sentences(index_python_differs(file, listed)) == [expected]


def test_the_same_requires_python_may_be_spelled_otherwise() -> None:
    spelled = (("Name", "demo"), ("Version", "1.0"), ("Requires-Python", "<4, >=3.9"))
    file = published(wheel(metadata=spelled))
    assert list(index_python_differs(file, publication(requires_python=">=3.9,<4"))) == []
    assert only(Note, index_python_differs(file, publication()))


def test_the_wrong_file_behind_a_name_is_found() -> None:
    other = wheel(metadata=(("Metadata-Version", "2.1"), ("Name", "other"), ("Version", "2.0")))
    assert sentences(published_name_disagrees(published(other))) == [
        "METADATA names 'other', but the file name has 'demo'",
        "METADATA names version '2.0', but the file name has '1.0'",
    ]
    bare = wheel(wheel=(("Wheel-Version", "1.0"), ("Tag", "cp310-cp310-win32")))
    assert "it lacks cp311" in sentences(published_tags_disagree(published(bare)))[0]


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (
            elf_file(architecture="aarch64"),
            "is for aarch64, but the tags claim manylinux_2_17_x86_64",
        ),
        (
            macho_file("demo/_native.cpython-311-x86_64-linux-gnu.so"),
            "is an object of format Mach-O, which manylinux_2_17_x86_64 cannot load",
        ),
    ],
)
def test_libraries_for_another_system_are_the_wrong_file(item: Any, sentence: str) -> None:
    problem = only(Problem, published_for_another_system(published(wheel(objects=[item]))))
    assert (problem.sentence, problem.level) == (sentence, Level.ERROR)
    # where others fit, a foreign library is only warned of
    objects = [elf_file("demo/libgood.so"), elf_file("demo/libarm.so", architecture="aarch64")]
    problem = only(Problem, published_for_another_system(published(wheel(objects=objects))))
    assert (problem.path, problem.level) == ("demo/libarm.so", Level.WARNING)


def test_a_truncated_library_is_one_fault_before_and_after_the_download() -> None:
    items = [
        MalformedObject(path="demo/a.so", format=Format.ELF, offset=64, reason="cut"),
        MalformedObject(path="demo/b.so", format=Format.ELF, offset=0, reason="text", instead="x"),
    ]
    package = wheel(malformed=items)
    before = list(published_for_another_system(published(package)))
    after = list(malformed_object(package))
    causes = [(each.cause, each.consequence) for each in before if isinstance(each, Problem)]
    assert causes == [(each.cause, True) for each in after if isinstance(each, Problem)]
    assert causes == [("damaged object demo/a.so", True), ("files in place of objects", True)]


def test_a_tag_without_a_library_for_it_is_found_unless_one_was_not_read() -> None:
    name = "demo-1.0-cp311-cp311-macosx_11_0_arm64.macosx_11_0_x86_64.whl"
    package = wheel(name, objects=[macho_file(architecture="x86_64")])
    assert sentences(published_for_another_system(published(package))) == [
        "claims macosx_11_0_arm64, but has no object for that architecture"
    ]
    unread = (UnreadObject(path="demo/x.dylib", format=Format.MACHO, reason="beyond"),)
    for count, more in ((1, ""), (3, ", and 2 more")):
        found = published_for_another_system(published(replace(package, unread=unread * count)))
        gap = NotInspected(path="demo/x.dylib", sentence=f"Mach-O not read{more}: beyond")
        assert list(found) == [gap]


@pytest.mark.parametrize(
    "package",
    [
        wheel("demo-1.0-py3-none-any.whl", objects=[pe_file("demo/x.dll")]),
        wheel("demo-1.0-cp311-cp311-win_amd64.whl"),
    ],
    ids=["for any platform", "without libraries"],
)
def test_what_claims_no_system_or_has_no_library_is_not_applicable(package: Wheel) -> None:
    with pytest.raises(NotApplicable):
        list(published_for_another_system(published(package)))
    unknown = wheel("demo-1.0-py3-none-manylinux_2_17_sparc.whl", objects=[elf_file("demo/a.so")])
    assert only(NotInspected, published_for_another_system(published(unknown)))


def test_files_lost_added_and_resized_since_record_was_written_are_found() -> None:
    package = wheel(members=[member("demo/a.py", b"a"), member("demo/b.py", b"b")])
    rows = tuple(
        replace(row, size=2) if row.path == "demo/a.py" else row
        for row in package.record or ()
        if row.path != "demo/b.py"
    )
    lost = RecordRow(path="demo/c.py", hash="sha256=x", size=1)
    found = published_record_differs(published(replace(package, record=(*rows, lost))))
    assert {(each.path, each.sentence) for each in found if isinstance(each, Problem)} == {
        ("demo/a.py", "RECORD says 2 bytes, but the file has 1"),
        ("demo/b.py", "the archive has it, but RECORD does not list it"),
        ("demo/c.py", "RECORD lists it, but the archive lacks it"),
    }


def test_an_archive_that_contradicts_itself_is_found_by_its_directory() -> None:
    package = wheel(members=[member("demo/a.py"), member("demo/a.py"), member("../b.py")])
    broken = replace(package, ambiguities=("3 bytes follow the end of the archive",))
    assert sentences(broken_published_archive(published(broken))) == [
        "3 bytes follow the end of the archive",
        "2 members have this name",
        "its name contains ..",
    ]


def test_how_much_was_read_is_noted() -> None:
    file = replace(published(wheel(size=5000)), requests=3, transferred=700, began_anew=True)
    note = only(Note, broken_published_archive(file))
    read = "700 of 5000 bytes were read by 3 ranges"
    assert note.sentence == f"{read}, and reading began again as the file changed"
    once = replace(file, requests=1, began_anew=False)
    sentence = "700 of 5000 bytes were read by 1 range"
    assert only(Note, broken_published_archive(once)).sentence == sentence
