"""A wheel is read whole; what is wrong with a part of it is a fact, with the whole one line."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path, PurePath

import pytest
from packaging.tags import Tag, parse_tag

from binary_checks.errors import PackageError
from binary_checks.model import Member, Wheel
from binary_checks.packages import open_package, preview, recognises
from binary_checks.packages.wheel import lay_out, split_variant_label
from fixtures.build_wheel import OMIT, Entry, build_wheel
from fixtures.fake_reader import FakeReader

ELF = b"\x7fELF" + bytes(200)


def read(path: Path, reader: FakeReader | None = None) -> Wheel:
    package = open_package(path, reader or FakeReader())
    assert isinstance(package, Wheel)
    return package


def find(package: Wheel, archive_name: str) -> Member:
    (only,) = (m for m in package.members if m.archive_name == archive_name)
    return only


def test_a_path_is_recognised_by_its_name() -> None:
    assert recognises(Path("demo-1.0-py3-none-any.whl"))
    assert not recognises(Path("demo-1.0.tar.gz"))
    assert not recognises(Path("demo-1.0.zip"))


def test_the_names_come_from_the_file_name(tmp_path: Path) -> None:
    tags = ("cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux2014_x86_64")
    package = read(build_wheel(tmp_path, name="De.mo", version="1.0+cpu", tags=tags, build="3a"))
    assert (package.name, package.version, package.build) == ("de-mo", "1.0+cpu", "3a")
    assert set(package.tags) == {
        Tag("cp311", "cp311", "manylinux_2_17_x86_64"),
        Tag("cp311", "cp311", "manylinux2014_x86_64"),
    }
    assert package.dist_info == "de_mo-1.0+cpu.dist-info"


def test_the_texts_of_dist_info_are_taken_apart(tmp_path: Path) -> None:
    built = build_wheel(
        tmp_path,
        requires=("numpy>=2", "six; extra == 'old'"),
        entry_points="[console_scripts]\ndemo = demo:main\nDemo2=demo:other\n[x.y]\na = b\n",
    )
    package = read(built)
    assert package.header("name") == "demo"
    assert package.requires_dist == ("numpy>=2", "six; extra == 'old'")
    tags = [value for key, value in package.wheel if key == "Tag"]
    assert tags == ["cp311-cp311-manylinux_2_17_x86_64"]
    assert not package.root_is_purelib
    assert package.entry_points == (
        ("console_scripts", "demo", "demo:main"),
        ("console_scripts", "Demo2", "demo:other"),
        ("x.y", "a", "b"),
    )


def test_every_member_is_hashed_as_zipfile_reads_it(tmp_path: Path) -> None:
    contents: dict[str, bytes | str | Entry] = {
        "demo/a.py": "x = 1\n",
        "demo/b.bin": bytes(range(256)) * 9000,
        "demo/empty": "",
    }
    for compression in ("stored", "deflated"):
        built = build_wheel(tmp_path, members=contents, compression=compression)
        package = read(built)
        with zipfile.ZipFile(built) as archive:
            assert archive.testzip() is None
            for entry, item in zip(archive.infolist(), package.members, strict=True):
                assert item.archive_name == entry.filename
                assert item.sha256 == hashlib.sha256(archive.read(entry)).hexdigest()
                assert (item.size, item.compressed_size) == (entry.file_size, entry.compress_size)
        assert not any(item.faults for item in package.members)
        assert package.archive_faults == package.record_faults == ()


def test_record_is_read_as_the_csv_that_it_is(tmp_path: Path) -> None:
    package = read(build_wheel(tmp_path, members={'demo/odd, "name".txt': "12345"}))
    assert package.record is not None
    row = package.record[0]
    assert (row.path, row.size) == ('demo/odd, "name".txt', 5)
    assert row.hash.startswith("sha256=")


def test_broken_rows_of_record_become_faults(tmp_path: Path) -> None:
    package = read(build_wheel(tmp_path, record="a,sha256=x,1\nb,c\nd,e,many\nf,g,1,2\n"))
    assert package.record_faults == (
        "line 2: 2 columns instead of three",
        "line 3: the size 'many' is not a number",
        "line 4: 4 columns instead of three",
    )
    assert package.record is not None
    assert [row.path for row in package.record] == ["a", "b", "d", "f"]


def test_a_record_that_is_no_text_becomes_a_fault(tmp_path: Path) -> None:
    package = read(build_wheel(tmp_path, record=b"\xff,,\n"))
    assert package.record_faults == ("it is not valid UTF-8 (at byte 0x0)",)
    (fault,) = read(build_wheel(tmp_path, record='"' + "x" * 200_000)).record_faults
    assert "not CSV" in fault


def test_a_missing_record_is_none(tmp_path: Path) -> None:
    assert read(build_wheel(tmp_path, record=OMIT)).record is None


def test_metadata_in_another_encoding_becomes_a_fault(tmp_path: Path) -> None:
    text = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nAuthor: Andr\xe9\n"
    package = read(build_wheel(tmp_path, metadata=text))
    assert package.header("Version") == "1.0"
    assert find(package, "demo-1.0.dist-info/METADATA").faults == (
        "it is not valid UTF-8 (at byte 0x3a)",
    )


@pytest.mark.parametrize("text", ["a = b\n", "[x]\na=1\na=2\n", "[x]\n[x]\n", "[x]\nnonsense\n"])
def test_broken_entry_points_become_a_fault(tmp_path: Path, text: str) -> None:
    package = read(build_wheel(tmp_path, entry_points=text))
    assert package.entry_points == ()
    (fault,) = find(package, "demo-1.0.dist-info/entry_points.txt").faults
    assert fault.startswith("it cannot be read: ")
    assert "\n" not in fault


def test_objects_are_read_wherever_they_lie_and_sorted_by_path(tmp_path: Path) -> None:
    members: dict[str, bytes | str | Entry] = {
        "demo/z.so": ELF,
        "demo/readme.txt": "no object",
        "demo/a": ELF,
    }
    package = read(build_wheel(tmp_path, members=members))
    site = "lib/python3.11/site-packages"
    assert [item.path for item in package.objects] == [f"{site}/demo/a", f"{site}/demo/z.so"]


def test_a_malformed_object_is_sorted_out(tmp_path: Path) -> None:
    built = build_wheel(tmp_path, members={"demo/a.so": ELF})
    package = read(built, FakeReader(asked=((150, 100),)))
    assert package.objects == ()
    (item,) = package.malformed
    assert (package.layout.shorten(item.path), item.offset) == ("demo/a.so", 150)


@pytest.mark.parametrize(
    ("path", "is_data"),
    [
        ("demo/tests/data/a.ir", True),
        ("demo/test_parser/a", True),
        ("demo/unit-tests/a", True),
        ("demo/latest/a", False),
        ("demo/tests/a.so", False),
        ("demo/tests/_a.cpython-311-x86_64-linux-gnu.so", False),
        ("demo/tests/a.o", False),
        ("demo/data/a.ir", False),
        ("demo/tests.ir", False),
    ],
)
def test_data_for_tests_is_no_malformed_object(tmp_path: Path, path: str, is_data: bool) -> None:
    built = build_wheel(tmp_path, members={path: ELF})
    package = read(built, FakeReader(asked=((150, 100),)))
    assert [package.layout.shorten(each) for each in package.test_data] == [path] * is_data
    assert len(package.malformed) == (not is_data)


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    built = build_wheel(tmp_path, members={"demo/a": bytes(30_000_000), "demo/b": bytes(9_000_000)})
    open_package(built, FakeReader(), lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 39_000_000
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    ("filename", "complaint"),
    [
        ("demo.whl", "its name is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl"),
        ("demo-one-py3-none-any.whl", "not the file name of a wheel"),
        ("demo-1.0-py3-none-any.txt", "not a known kind of package"),
    ],
)
def test_a_name_that_says_nothing_is_refused(tmp_path: Path, filename: str, complaint: str) -> None:
    built = build_wheel(tmp_path, filename=filename)
    for look in (open_package, preview):
        with pytest.raises(PackageError, match=complaint):
            look(built, FakeReader())


def test_no_file_at_all_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no such file"):
        read(tmp_path / "demo-1.0-py3-none-any.whl")
    (tmp_path / "demo-2.0-py3-none-any.whl").mkdir()
    with pytest.raises(PackageError, match="not a regular file"):
        read(tmp_path / "demo-2.0-py3-none-any.whl")


@pytest.mark.skipif(sys.platform == "win32", reason="asks for POSIX permissions")
def test_a_file_that_may_not_be_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    built = build_wheel(tmp_path)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PackageError, match="cannot be opened: Permission denied"):
        read(built)


def test_no_or_two_dist_info_folders_are_one_line(tmp_path: Path) -> None:
    other = build_wheel(tmp_path, extra_entries=[Entry("other-2.dist-info/METADATA", b"")])
    with pytest.raises(PackageError, match=r"2 \*\.dist-info folders: demo-1\.0"):
        read(other)
    with zipfile.ZipFile(tmp_path / "bare-1-py3-none-any.whl", "w") as archive:
        archive.writestr("bare.py", "")
    with pytest.raises(PackageError, match=r"has no \*\.dist-info"):
        read(tmp_path / "bare-1-py3-none-any.whl")


def test_encrypted_metadata_is_one_line(tmp_path: Path) -> None:
    secret = Entry("demo-1.0.dist-info/METADATA", b"Name: demo", encrypted=True)
    built = build_wheel(tmp_path, metadata=OMIT, extra_entries=[secret])
    with pytest.raises(PackageError, match="METADATA cannot be read: it is encrypted"):
        read(built)


DATA: dict[str, bytes | str | Entry] = {
    "demo/__init__.py": "",
    "demo-1.0.data/purelib/pure.py": "",
    "demo-1.0.data/platlib/demo/plat.txt": "x",
    "demo-1.0.data/data/share/x.txt": "x",
    "demo-1.0.data/scripts/tool": "#!/bin/sh\n",
    "demo-1.0.data/headers/sub/demo.h": "\n",
}


def test_data_lands_where_its_scheme_says(tmp_path: Path) -> None:
    package = read(build_wheel(tmp_path, members=DATA))
    assert [item.path for item in package.members][: len(DATA)] == [
        "lib/python3.11/site-packages/demo/__init__.py",
        "lib/python3.11/site-packages/pure.py",
        "lib/python3.11/site-packages/demo/plat.txt",
        "share/x.txt",
        "bin/tool",
        "include/site/python3.11/demo/sub/demo.h",
    ]


def test_windows_has_other_folders(tmp_path: Path) -> None:
    package = read(build_wheel(tmp_path, members=DATA, tags=("cp311-cp311-win_amd64",)))
    assert [item.path for item in package.members][2:6] == [
        "Lib/site-packages/demo/plat.txt",
        "share/x.txt",
        "Scripts/tool",
        "include/site/python3.11/demo/sub/demo.h",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "demo-1.0.data/data/../../x",
        "demo-1.0.data/scripts/",
        "demo-1.0.data/data",
        "demo-1.0.data/other/x",
        "demo-1.0.data/data/a\\b",
        "other-1.0.data/data/x",
        "../x",
        "/etc/x",
        "C:/x",
    ],
)
def test_a_name_that_leads_nowhere_stays_as_it_is(tmp_path: Path, name: str) -> None:
    package = read(build_wheel(tmp_path, extra_entries=[Entry(name, b"")]))
    assert package.layout.shorten(find(package, name).path) == name


@pytest.mark.slow
def test_pip_installs_members_where_their_paths_say(tmp_path: Path) -> None:
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    built = build_wheel(tmp_path, members=DATA, tags=(f"py{version}-none-any",))
    venv.create(tmp_path / "env", with_pip=True, symlinks=sys.platform != "win32")
    python = next((tmp_path / "env").glob("[bS]*/python*"))
    command = [str(python), "-m", "pip", "install", "--no-index", "--no-compile", "-q", str(built)]
    subprocess.run(command, check=True)
    (record,) = (tmp_path / "env").glob("[lL]ib/**/demo-1.0.dist-info/RECORD")
    with record.open(newline="") as file:
        installed = {row[0] for row in csv.reader(file)}
    if sys.platform == "win32":
        expected = read(build_wheel(tmp_path, members=DATA, tags=("cp311-cp311-win_amd64",)))
    else:
        expected = read(built)
    added = {"demo-1.0.dist-info/INSTALLER", "demo-1.0.dist-info/REQUESTED"}
    added.add("demo-1.0.dist-info/direct_url.json")
    place = expected.layout.place
    assert {item.path for item in expected.members} == set(map(place, installed - added))
    if sys.platform != "win32":
        assert all((tmp_path / "env" / item.path).is_file() for item in expected.members)


@pytest.mark.parametrize(
    ("tags", "site"),
    [
        ("cp311-cp311-linux_x86_64", "lib/python3.11/site-packages"),
        ("cp39.cp310-abi3-linux_x86_64", "lib/python3.9/site-packages"),
        ("cp313-cp313t-macosx_11_0_arm64", "lib/python3.13t/site-packages"),
        ("pp310-pypy310_pp73-linux_x86_64", "lib/pypy3.10/site-packages"),
        ("py3-none-any", "lib/python3/site-packages"),
        ("py2.py3-none-win_amd64", "Lib/site-packages"),
        ("cp311-cp311-linux_x86_64.win_amd64", "lib/python3.11/site-packages"),
    ],
)
def test_site_packages_is_that_of_the_oldest_python_of_the_tags(tags: str, site: str) -> None:
    assert lay_out("demo", parse_tag(tags)).site_packages == site


def test_site_packages_is_where_this_python_has_it() -> None:
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    ending = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    system = "win_amd64" if sys.platform == "win32" else "linux_x86_64"
    laid_out = lay_out("demo", parse_tag(f"cp{version}-cp{version}{ending}-{system}"))
    scheme = "nt" if sys.platform == "win32" else "posix_prefix"
    prefix = "/prefix"
    bases = dict.fromkeys(("base", "platbase", "installed_base", "installed_platbase"), prefix)
    found = sysconfig.get_paths(scheme, vars=bases)
    for name, place in (("purelib", laid_out.site_packages), ("scripts", laid_out.scripts)):
        assert PurePath(found[name]) == PurePath(prefix, place)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("demo-1.0-cp311-cp311-manylinux_2_28_x86_64-cu128.whl", "cu128"),
        ("demo-1.0-1-cp311-cp311-manylinux_2_28_x86_64-x86_64_v3.whl", "x86_64_v3"),
        ("demo-1.0-py3-none-any-null.whl", "null"),
        ("demo-1.0-1build-cp311-cp311-manylinux_2_28_x86_64.whl", ""),
        ("demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", ""),
        ("demo-1.0-py3-none-any-a_label_that_is_too_long.whl", ""),
        ("demo-1.0-py3-none-any-CU128.whl", ""),
    ],
)
def test_the_label_of_a_wheel_variant_is_no_part_of_the_tags(name: str, label: str) -> None:
    plain, found = split_variant_label(name)
    assert found == label
    assert plain == (name.replace(f"-{label}.whl", ".whl") if label else name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("demo-1.0-b1-py3-none-any.whl", "its name has a part too many: a build tag begins with"),
        ("demo-1.0-py3-none-any-cu128.whl", "a wheel variant has demo-1.0.dist-info/variant.json"),
        ("demo-1.0-py3-none-any (1).whl", "its tags contain ' ()', and pip and uv refuse it"),
    ],
)
def test_a_name_that_installers_refuse(tmp_path: Path, name: str, fault: str) -> None:
    with pytest.raises(PackageError, match=re.escape(fault)):
        read(build_wheel(tmp_path, filename=name))


def test_a_wheel_variant_is_read_as_the_wheel_that_it_is(tmp_path: Path) -> None:
    members = {"demo-1.0.dist-info/variant.json": "{}"}
    name = "demo-1.0-cp311-cp311-win_amd64-cu128.whl"
    package = read(build_wheel(tmp_path, filename=name, members=members))
    assert isinstance(package, Wheel)
    assert (package.name, package.version, package.build) == ("demo", "1.0", "")
    assert [str(tag) for tag in package.tags] == ["cp311-cp311-win_amd64"]
    assert package.variant_label == "cu128"
