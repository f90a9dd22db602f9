"""What is read of each package of a release, and what is said of one that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from binary_checks import objects
from binary_checks.errors import NotApplicable, ProfileError
from binary_checks.gather.reading import read_release
from binary_checks.model import Release, ReleaseRequest, Remote, Source
from binary_checks.sources.file import FileSource
from binary_checks.sources.release import (
    ExpectedSet,
    ReleaseSource,
    make_release,
    read_expected_set,
)
from fixtures.build_wheel import build_wheel
from fixtures.remote_files import RemotePackage

COMMIT = "cf30153c4c131c8164ee7798e5022d810682e2cb"


@dataclass(frozen=True)
class RemoteSource:
    """A source whose file lies on a server."""

    package: RemotePackage

    @property
    def label(self) -> str:
        return self.package.file_name

    def remote(self) -> Remote:
        return self.package


def read(*sources: object, **commits: str) -> Release:
    request = ReleaseRequest(commits=commits) if commits else ReleaseRequest()
    packages = tuple(cast("Source", each) for each in sources)
    release = ReleaseSource(packages=packages, folder=Path())
    return read_release(release, request, objects, None)


def local(path: Path) -> FileSource:
    return FileSource(path=path)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("demo/version.py", f"git_version = '{COMMIT}'\n"),
        ("demo/version.py", f'__version__ = "1"\n__git_version__: str = "{COMMIT}"\n'),
        ("demo/version.py", f'    "full-revisionid": "{COMMIT}",\n'),
        ("demo/_version.py", f"__commit_id__ = commit_id = 'g{COMMIT[:9]}'\n"),
        ("demo/_version_meson.py", f'__git_version__="{COMMIT}"\n'),
        ("build-hash", f"{COMMIT}\n"),
    ],
)
def test_the_commit_is_found_where_projects_write_it(tmp_path: Path, path: str, text: str) -> None:
    (part,) = read(local(build_wheel(tmp_path, members={path: text}))).parts
    ((where, commit),) = part.commits
    assert where == path
    assert COMMIT.startswith(commit)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("demo/version.py", "git_version = None\n"),
        ("demo/version.py", "git_version = 'Unknown'\n"),
        ("demo/inner/version.py", f"git_version = '{COMMIT}'\n"),
        ("demo/other.py", f"git_version = '{COMMIT}'\n"),
    ],
)
def test_no_commit_is_made_up(tmp_path: Path, path: str, text: str) -> None:
    (part,) = read(local(build_wheel(tmp_path, members={path: text}))).parts
    assert part.commits == ()
    assert not part.gap


def test_a_profile_names_other_files(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members={"demo/inner/about.txt": "built of 1234567"})
    (part,) = read(local(path), **{"demo/*/about.txt": "built of ([0-9a-f]+)"}).parts
    assert part.commits == (("demo/inner/about.txt", "1234567"),)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("(", "not a regular expression"), ("commit", "it needs one group, around the commit")],
)
def test_a_pattern_that_finds_nothing_is_the_profiles_fault(pattern: str, said: str) -> None:
    with pytest.raises(ProfileError, match=rf"probes\.release\.commits\.version: {said}"):
        read(local(Path("demo-1.0-py3-none-any.whl")), version=pattern)


def test_a_remote_package_is_read_by_its_ranges(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path, requires=["numpy"], members={"demo/version.py": f"git_version = '{COMMIT}'"}
    )
    here = local(path)
    there = RemoteSource(RemotePackage(path, siblings=("demo-1.0-py3-none-any.whl",)))
    release = read(here, there)
    assert release.parts[0] == release.parts[1]
    assert release.parts[0].requires == ("numpy",)
    assert release.listed == ("demo-1.0-py3-none-any.whl",)


def test_what_cannot_be_read_is_the_gap_of_one_package_alone(tmp_path: Path) -> None:
    sound = build_wheel(tmp_path, version="1.0")
    broken = build_wheel(tmp_path, version="2.0", truncate=-30)
    mute = RemoteSource(RemotePackage(build_wheel(tmp_path, version="3.0"), ranges=False))
    release = read(local(sound), local(broken), mute)
    gaps = [part.gap for part in release.parts]
    assert gaps[0] == ""
    assert gaps[1].startswith("truncated")
    assert gaps[2] == "the server sends no ranges"


def test_there_is_a_release_where_something_can_be_judged(tmp_path: Path) -> None:
    one = local(build_wheel(tmp_path, tags=["cp311-cp311-win_amd64"]))
    other = local(build_wheel(tmp_path, tags=["cp312-cp312-win_amd64"]))
    later = local(build_wheel(tmp_path, version="2.0"))
    conda = local(tmp_path / "demo-1.0-0.conda")
    with pytest.raises(NotApplicable):
        read_release(one, ReleaseRequest(), objects, None)
    assert make_release([one, other], None, tmp_path) is not None
    again = local(tmp_path / "again" / one.label)
    assert make_release([one, later, conda, again], None, tmp_path) is None
    assert make_release([one], ExpectedSet(written="x", globs=("*",)), tmp_path) is not None


def test_a_set_is_a_list_of_globs_with_comments(tmp_path: Path) -> None:
    path = tmp_path / "set.txt"
    path.write_text("# all\n\ndemo-*-win_amd64.whl  # Windows\r\ndemo-*.conda\n")
    assert read_expected_set(path, "set.txt").globs == ("demo-*-win_amd64.whl", "demo-*.conda")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# nothing\n", "it lists no file"),
        (b"\xff\xfe\0", r"not a text file \(UTF-8\)"),
        (b"dist/*.whl\n", r"dist/\*\.whl: globs match file names, without folders"),
        (b"\n".join(b"%d" % n for n in range(10_001)), "it lists more than 10000 files"),
    ],
    ids=["empty", "binary", "folders", "endless"],
)
def test_a_file_that_is_no_such_list_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "set.txt"
    path.write_bytes(content)
    with pytest.raises(ProfileError, match=rf"set\.txt: {said}"):
        read_expected_set(path, "set.txt")
    with pytest.raises(ProfileError, match=r"gone\.txt: cannot be read: No such file"):
        read_expected_set(tmp_path / "gone.txt", "gone.txt")
