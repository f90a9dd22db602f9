"""What the user names is told apart by its words, found later, and known by what it is."""

from __future__ import annotations

import hashlib
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks import objects, packages
from binary_checks.documents.facts import Statement
from binary_checks.errors import BinaryChecksError, GatherError, ProfileError
from binary_checks.model import (
    Format,
    InstalledPackage,
    ObjectReader,
    Preview,
    Progress,
    Tree,
    hash_record,
)
from binary_checks.packages import open_package
from binary_checks.sources import Surroundings, parse
from binary_checks.sources.file import FileSource, apply_statement
from fixtures.build_wheel import build_wheel
from fixtures.installation import install_by_hand
from tests.plugin.conftest import healthy


def state(wheel: Path) -> Statement:
    package = open_package(wheel, objects)
    record = hash_record(package.dist_info, package.record or ())  # type: ignore[attr-defined]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Statement(sha256=digest, record_sha256=record, package=package)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "path"),
    [
        ("demo-1.0-py3-none-any.whl", "/here/demo-1.0-py3-none-any.whl"),
        ("../a/./demo-1.0-py3-none-any.whl", "/a/demo-1.0-py3-none-any.whl"),
        ("installed:My_Demo", "/here/installed:my-demo"),
    ],
)
def test_a_package_is_told_by_its_name_and_need_not_be_there(argument: str, path: str) -> None:
    named = parse(argument, Path("/here"))
    assert named is not None
    assert named.path == Path(path)


@pytest.mark.parametrize("argument", ["tests", "setup.py", "x.whl.txt", "demo.dist-info", "a\0b"])
def test_anything_else_is_no_package(argument: str, tmp_path: Path) -> None:
    assert parse(argument, tmp_path) is None


@pytest.mark.parametrize(
    ("name", "said"), [("gone.whl", "gone.whl: no such file"), ("f.whl", "f.whl: a folder")]
)
def test_a_file_that_is_not_there_is_the_users_mistake(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "f.whl").mkdir()
    named = parse(name, tmp_path)
    assert named is not None
    with pytest.raises(ProfileError, match=said):
        named.resolve(Surroundings(python=Path(sys.executable)))


def test_a_file_is_known_by_its_hash(tmp_path: Path) -> None:
    wheel = healthy(tmp_path)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert FileSource(path=wheel).identity() == f"sha256 {digest}"
    with pytest.raises(GatherError, match="cannot be read"):
        FileSource(path=tmp_path / "gone.whl").identity()


def test_stated_facts_are_taken_for_the_file_that_they_are_about(tmp_path: Path) -> None:
    wheel = healthy(tmp_path / "here")
    statement = state(wheel)
    statement = replace(statement, package=replace(statement.package, path=Path(wheel.name)))
    stated = apply_statement(FileSource(path=wheel), statement)
    assert stated is not None
    assert stated.read(objects).package == open_package(wheel, objects)
    assert stated.preview(objects).formats == {Format.ELF}
    other = build_wheel(tmp_path / "there", members={"demo.py": ""})
    assert apply_statement(FileSource(path=other), statement) is None


def test_stated_facts_of_a_wheel_stand_for_its_installed_copy_too(tmp_path: Path) -> None:
    wheel = healthy(tmp_path)
    installation = install_by_hand(wheel, tmp_path / "env")
    stated = apply_statement(installation, state(wheel))
    assert stated is not None
    package = stated.read(objects).package
    assert isinstance(package, InstalledPackage)
    assert package == installation.read(objects).package
    assert stated.preview(objects).kind is InstalledPackage


class ByContent:
    """A kind that only a look tells: an archive with a file of that name in it."""

    looks = 0

    def recognises(self, label: str, look: object) -> bool:
        if not label.endswith(".zip"):
            return False
        self.looks += 1
        return look().find("build-version") is not None  # type: ignore[operator, no-any-return]

    def preview(self, tree: Tree, reader: ObjectReader) -> Preview:
        raise AssertionError

    def read(
        self, tree: Tree, reader: ObjectReader, progress: Progress | None = None
    ) -> InstalledPackage:
        raise AssertionError


def test_a_kind_may_look_into_the_tree_and_opens_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = ByContent()
    monkeypatch.setattr(packages, "KINDS", (*packages.KINDS, kind))
    with_it = build_wheel(tmp_path, members={"build-version": "1"}).rename(tmp_path / "a.zip")
    without = build_wheel(tmp_path, members={"x": ""}).rename(tmp_path / "b.zip")
    (tmp_path / "broken.zip").write_bytes(b"PK\3\4")
    assert packages.recognises(with_it)
    assert not packages.recognises(without)
    with closing(FileSource(path=without).open()) as tree:
        with pytest.raises(BinaryChecksError) as caught:
            packages.kind_of(tree)
        assert "b.zip: not a known kind of package" in str(caught.value)
        assert "\n" not in str(caught.value)
    for name in ("broken.zip", "gone.zip", "x" * 5000 + ".zip"):
        assert not packages.recognises(tmp_path / name)
    looks = kind.looks
    assert packages.recognises(tmp_path / "gone.whl")
    assert not packages.recognises(tmp_path / "setup.py")
    assert kind.looks == looks
