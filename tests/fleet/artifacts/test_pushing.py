"""Pushing files: real packages of every kind, libraries, and their companions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import BinaryChecksError, PackageError, ProfileError
from binary_checks.fleet.artifacts import (
    PushEnd,
    PushRequest,
    StatedValues,
    list_members,
    push_file,
    read_companions,
    read_given,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.store.kept_facts import find_facts
from fixtures.archive_entries import Entry
from fixtures.build_conda import build_conda
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel

COMMIT = "c" * 40
EXTENSION = "demo/_a.cpython-312-x86_64-linux-gnu.so"
TAGS = ("cp312-cp312-manylinux_2_28_x86_64",)


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "kept"), make=True)


def push(store: Store, path: Path, by_hand: dict[str, str] | None = None, **said: Any) -> PushEnd:
    request = PushRequest(
        stated=StatedValues(
            by_hand=by_hand or {},
            file_names=(path.name,),
            project=said.pop("project", ""),
            version=said.pop("version", ""),
        ),
        given=read_given(COMMIT, said.pop("branch", "")),
        folder=path.parent,
        channels=said.pop("channels", ("test",)),
        **said,
    )
    return push_file(store, path, request)


def make_wheel(folder: Path, **said: Any) -> Path:
    members = {"demo/__init__.py": "", EXTENSION: build_elf(needed=("libc.so.6",))}
    licensed = {"demo-1.0.dist-info/licenses/LICENSE": "as is"}
    return build_wheel(folder, tags=TAGS, **{"members": {**members, **licensed}, **said})


@pytest.mark.usefixtures("inspecting_process")
def test_a_wheel_is_kept_with_metadata_facts_and_what_it_is(kept: Store, tmp_path: Path) -> None:
    metadata = (
        "Metadata-Version: 2.4\nName: Demo\nVersion: 1.0\nLicense-Expression: MIT\n"
        "Requires-Python: >=3.9\n"
    )
    native = build_elf(needed=("libmkl_rt.so.2", "libgomp.so.1"))
    path = make_wheel(tmp_path, metadata=metadata, members={EXTENSION: native})
    end = push(kept, path)
    found = end.artifact
    assert end.new
    assert end.joined == ("test",)
    assert (found.kind, found.project, found.version) == ("wheel", "demo", "1.0")
    assert (found.system, found.architecture, found.python) == ("linux", "x86_64", "3.12")
    assert found.evidence["python"] == "the tag cp312-cp312"
    assert (found.blas, found.openmp) == ("mkl", "libgomp")
    assert found.evidence["blas"] == f"{EXTENSION}: needs libmkl_rt.so.2"
    assert found.evidence["commit"] == "--commit"
    assert found.evidence["kind"] == "the file is a wheel"
    assert found.requires_python == ">=3.9"
    assert kept.read(found.metadata_name) == metadata.encode()
    assert found.metadata_sha256 == hashlib.sha256(metadata.encode()).hexdigest()
    assert find_facts(kept, found.sha256) is not None
    assert [each.sha256 for each in list_members(kept, "test")] == [found.sha256]


def test_pushing_again_joins_a_further_channel_and_other_bytes_of_that_name_leave_nothing(
    kept: Store, tmp_path: Path
) -> None:
    path = make_wheel(tmp_path)
    push(kept, path)
    end = push(kept, path, channels=("test", "nightly"))
    assert (end.new, end.joined, end.remarks) == (False, ("nightly",), ())
    before = [each.name for each in kept.names("files/")]
    rebuilt = make_wheel(tmp_path, compression="stored")
    with pytest.raises(ArtifactRefusedError, match="the channel test has other bytes"):
        push(kept, rebuilt)
    assert [each.name for each in kept.names("files/")] == before


def test_the_same_bytes_of_another_commit_or_branch_keep_their_record(
    kept: Store, tmp_path: Path
) -> None:
    path = make_wheel(tmp_path)
    assert push(kept, path, branch="main").artifact.branch == "main"
    request = PushRequest(given=read_given("d" * 40), folder=tmp_path, channels=("test",))
    end = push_file(kept, path, request)
    assert (end.new, end.artifact.commit) == (False, COMMIT)
    assert end.remarks == (
        f"the store still names the commit {COMMIT}, although this push states {'d' * 40} for the "
        "same bytes",
    )
    end = push(kept, path, branch="old")
    assert end.artifact.branch == "main"
    assert end.remarks == (
        "the store still names the branch main, although this push states old for the same bytes",
    )
    assert not push(kept, path).new


def test_a_pull_request_that_is_merged_may_leave_the_same_bytes(
    kept: Store, tmp_path: Path
) -> None:
    path = make_wheel(tmp_path)
    request = PushRequest(given=read_given(COMMIT, pull_request="7"), folder=tmp_path)
    push_file(kept, path, request)
    end = push(kept, path, branch="main")
    assert (end.artifact.branch, end.artifact.pull_request, end.joined) == ("", "7", ("test",))
    assert end.remarks == (
        "the store still names the branch none, although this push states main for the same bytes",
    )


def test_the_commit_that_a_package_says_itself_is_held_against_the_others(
    kept: Store, tmp_path: Path
) -> None:
    members = {"demo/version.py": f'git_version = "{"e" * 40}"\n'}
    path = build_wheel(tmp_path, members=members, tags=("py3-none-any",))
    with pytest.raises(ArtifactRefusedError, match=r"demo/version\.py of the package says eeee"):
        push(kept, path)
    end = push_file(kept, path, PushRequest(folder=tmp_path))
    assert end.artifact.commit == "e" * 40
    assert end.artifact.evidence["commit"] == "demo/version.py of the package"


def test_what_contradicts_the_bytes_is_refused_before_anything_is_written(
    kept: Store, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactRefusedError, match=r"3\.11 is set by hand"):
        push(kept, make_wheel(tmp_path), by_hand={"python": "3.11"})
    assert list(kept.names("files/")) == []


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_a_conda_package_is_kept_with_its_index(kept: Store, tmp_path: Path, suffix: Any) -> None:
    path = build_conda(tmp_path, suffix=suffix, index_changes={"license": "BSD-3-Clause"})
    found = push(kept, path).artifact
    assert (found.kind, found.project, found.subdir) == ("conda", "demo", "linux-64")
    assert (found.system, found.architecture, found.python) == ("linux", "x86_64", "3.11")
    assert found.record["build"] == "py311h0123abc_0"
    (member,) = list_members(kept)
    assert member.stored.name == f"channels/test/demo/linux-64/{path.name}"


def test_a_plain_library_is_kept_with_licenses_and_dependencies(
    kept: Store, tmp_path: Path
) -> None:
    library = tmp_path / "libfoo.so"
    library.write_bytes(build_elf(needed=("libbar.so.1", "libc.musl-x86_64.so.1")))
    (tmp_path / "libbar.so.1").write_bytes(build_elf(soname="libbar.so.1"))
    (tmp_path / "LICENSE").write_text("as is")
    companions = read_companions([f"{tmp_path}/LICENSE"], [f"{tmp_path}/libbar.so.1"])
    found = push(kept, library, project="foo", version="1.2", companions=companions).artifact
    assert (found.kind, found.project, found.version) == ("library", "foo", "1.2")
    assert (found.system, found.architecture) == ("musllinux", "x86_64")
    assert found.evidence["system"] == "1 ELF object with musl's libc"
    assert found.evidence["version"] == "set by hand"
    assert [each.path for each in found.companions] == ["dependencies/libbar.so.1",
                                                        "licenses/LICENSE"]  # fmt: skip


def test_a_package_says_project_and_version_itself(kept: Store, tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with pytest.raises(ArtifactRefusedError, match="the package says demo, but --project says"):
        push(kept, path, project="other")
    with pytest.raises(ArtifactRefusedError, match=r"the package says 1\.0, but --version says 2"):
        push(kept, path, version="2")
    assert push(kept, path, project="Demo", version="1.0.0").artifact.version == "1.0"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("demo.whl", b"no zip", "demo.whl"),
        ("demo.txt", b"a text", "demo.txt"),
        ("a b.whl", b"", "not a valid file name for a store"),
        ("missing.whl", None, "cannot be read"),
    ],
)
def test_what_is_no_package_is_one_line(
    kept: Store, tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BinaryChecksError) as refused:
        push(kept, tmp_path / name)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(kept.names("files/")) == []


@pytest.mark.usefixtures("inspecting_process")
def test_a_file_that_takes_too_long_to_read_is_left(kept: Store, tmp_path: Path) -> None:
    with pytest.raises(BinaryChecksError, match=r"reading it takes longer than 0\.001 s"):
        push(kept, make_wheel(tmp_path), timeout=0.001)


def test_two_companions_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "LICENSE").write_text(folder)
    with pytest.raises(ProfileError, match="both would be stored as licenses/LICENSE"):
        read_companions([f"{tmp_path}/a/LICENSE", f"{tmp_path}/b/LICENSE"], [])


def test_a_second_metadata_that_says_otherwise_is_refused(kept: Store, tmp_path: Path) -> None:
    twice = Entry("demo-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: evil\nVersion: 9\n")
    path = make_wheel(tmp_path, extra_entries=[twice])
    with pytest.raises(ArtifactRefusedError, match="METADATA, which states evil 9"):
        push(kept, path)


def test_a_package_that_was_renamed_or_names_a_folder_elsewhere_is_refused(
    kept: Store, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path)
    other = wheel.rename(tmp_path / "other-1.0-cp312-cp312-manylinux_2_28_x86_64.whl")
    with pytest.raises(
        ArtifactRefusedError, match=r"METADATA, which states demo 1\.0; do not rename"
    ):
        push(kept, other)
    conda = build_conda(tmp_path, suffix=".tar.bz2")
    newer = conda.rename(tmp_path / "demo-2.0-py311h0123abc_0.tar.bz2")
    with pytest.raises(ArtifactRefusedError, match=r"index\.json, which states demo 1\.0"):
        push(kept, newer)
    package = build_conda(tmp_path, index_changes={"subdir": "../../x"})
    with pytest.raises(PackageError, match=r"subdir: '../../x' cannot name an object of a store"):
        push(kept, package)
    assert [*kept.names("files/")] == []


def test_a_variant_of_which_nothing_is_found_is_remarked(kept: Store, tmp_path: Path) -> None:
    end = push(kept, make_wheel(tmp_path), by_hand={"variant": "cu130"})
    assert end.artifact.variant == "cu130"
    assert end.remarks == (
        "its variant is cu130 (set by hand), but no object contains device code or needs a library "
        "of an accelerator",
    )
