"""A wheel without its local version: what changes, and what stays as it is."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.fleet.artifacts import relabel_wheel
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.model import Wheel
from binary_checks.packages import open_package
from fixtures.build_wheel import OMIT, build_wheel
from fixtures.environments import PURE, open_offline

LABELLED = "1.0+cu126"


def build(folder: Path, **fields: object) -> Path:
    members = {
        "demo/__init__.py": "value = 1\n" * 1000,
        f"demo-{LABELLED}.data/scripts/run": "#!python\nprint()\n",
    }
    known: dict[str, object] = {"members": members, "tags": PURE, "version": LABELLED}
    return build_wheel(folder, name="demo", **{**known, **fields})  # type: ignore[arg-type]


def relabel(path: Path) -> Path:
    folder = path.parent / "new"
    folder.mkdir(exist_ok=True)
    return relabel_wheel(path, folder)


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_only_metadata_record_and_names_change(tmp_path: Path) -> None:
    body = f"Version: {LABELLED} is new\n"
    head = f"Metadata-Version: 2.1\nName: demo\nVersion: {LABELLED}\nRequires-Dist: numpy\n"
    path = build(tmp_path, metadata=f"{head}\n{body}")
    made = relabel(path)
    assert made.name == "demo-1.0-py3-none-any.whl"
    old, new = read(path), read(made)
    info = "demo-1.0.dist-info"
    assert [*new] == [name.replace(f"-{LABELLED}.", "-1.0.") for name in old]
    former = {name: name.replace("demo-1.0.", f"demo-{LABELLED}.") for name in new}
    changed = {name for name in new if new[name] != old.get(name, old.get(former[name]))}
    assert changed == {f"{info}/METADATA", f"{info}/RECORD"}
    renamed = head.replace(f"Version: {LABELLED}", "Version: 1.0")
    assert new[f"{info}/METADATA"].decode() == f"{renamed}\n{body}"


def test_the_new_wheel_is_whole_and_can_be_installed(tmp_path: Path) -> None:
    made = relabel(build(tmp_path))
    package = open_package(made, objects)
    assert isinstance(package, Wheel)
    assert (package.version, package.archive_faults) == ("1.0", ())
    with open_offline(made) as place:
        report = place.install_report
    assert (report.error, report.unrecorded, report.altered, report.missing) == ("", (), (), ())


def test_the_same_wheel_gives_the_same_bytes(tmp_path: Path) -> None:
    path = build(tmp_path)
    first = hashlib.sha256(relabel(path).read_bytes()).hexdigest()
    (path.parent / "new" / "demo-1.0-py3-none-any.whl").unlink()
    assert hashlib.sha256(relabel(path).read_bytes()).hexdigest() == first


def test_members_are_copied_as_they_are_compressed(tmp_path: Path) -> None:
    path = build(tmp_path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(relabel(path)) as new:
        for name in ("demo/__init__.py",):
            one, other = old.getinfo(name), new.getinfo(name)
            assert (one.CRC, one.compress_size, one.date_time, one.external_attr) == (
                (other.CRC, other.compress_size, other.date_time, other.external_attr)
            )
            assert other.compress_size < other.file_size


def test_sizes_behind_the_bytes_of_a_streamed_member_move_before_them(tmp_path: Path) -> None:
    path = build(tmp_path)
    contents = read(path)
    with path.open("wb") as file:

        class Pipe:
            """A file that cannot be sought, as a zip is written to standard output."""

            def write(self, content: bytes) -> int:
                return file.write(content)

            def flush(self) -> None: ...

        with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
            for name, content in contents.items():
                archive.writestr(name, content)
    with zipfile.ZipFile(path) as archive:
        assert archive.infolist()[0].flag_bits & 0x08
    made = relabel(path)
    assert read(made)["demo/__init__.py"] == contents["demo/__init__.py"]
    with zipfile.ZipFile(made) as archive:
        assert not archive.infolist()[0].flag_bits & 0x08


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": "1.0"}, "its version has no local label"),
        ({"record": OMIT}, "it has no RECORD to rewrite"),
        ({"members": {f"demo-{LABELLED}.dist-info/RECORD.jws": ""}}, r"RECORD\.jws signs a RECORD"),
    ],
)
def test_a_wheel_that_cannot_be_relabelled(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(ArtifactRefusedError, match=reason):
        relabel(build(tmp_path, **{"members": {"demo.py": ""}, **fields}))


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0+cpu-py3-none-any.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(ArtifactRefusedError, match="cannot be read"):
        relabel(path)
