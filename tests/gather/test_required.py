"""What a package requires is downloaded for its own system, by name, from the user's index.

Nothing is fetched that a requirement names in another way, and nothing is built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects, packages
from binary_checks.checks.metadata import requirement_without_wheel
from binary_checks.command import main
from binary_checks.errors import GatherError, NotApplicable, Unavailable
from binary_checks.examination.facts import Facts
from binary_checks.examination.settings import RunSettings
from binary_checks.gather import required
from binary_checks.gather.companions import Companions
from binary_checks.model import (
    Finding,
    InstallReport,
    Linkage,
    Package,
    Problem,
    RequiredWheels,
    Wheel,
)
from binary_checks.places.index_settings import PIP
from binary_checks.sources.file import FileSource
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import running
from fixtures.package_index import PackageIndex, pack_source, serve_index, write_source

pytest.importorskip("pip", reason="no pip here")

PURE = ("py3-none-any",)
LINUX = ("py3-none-manylinux_2_17_x86_64",)
WINDOWS = ("py3-none-win_amd64",)
EXTENSION = "demo/_native.cpython-311-x86_64-linux-gnu.so"
NEEDY = build_elf(needed=("libx.so.1",), runpath="$ORIGIN/../x/lib")
RUNTIME = "wheel:x-runtime:x/lib/libx.so.1"


class Ground:
    """An index, and a folder with what a requirement could mean; what is built leaves a mark."""

    def __init__(self, index: PackageIndex, folder: Path) -> None:
        self.index, self.folder, self.mark = index, folder, folder / "mark"

    def fetching(self, *given: Path) -> Companions:
        return Companions(given, fetches=True, folder=self.folder / "kept")

    def open(self, *requires: str, shelf: Companions | None = None) -> Facts:
        """Open a wheel that requires this, and needs a library, which x-runtime has."""
        wheel = build_wheel(self.folder / "dist", members={EXTENSION: NEEDY}, requires=requires)
        return Facts(FileSource(path=wheel), RunSettings(), shelf or self.fetching())

    def simulate(self, *requires: str, shelf: Companions | None = None) -> Linkage:
        """Judge the linkage of that wheel."""
        return self.open(*requires, shelf=shelf).get(Linkage)

    def refusal(self, *requires: str) -> str:
        with pytest.raises(Unavailable) as raised:
            self.simulate(*requires)
        return str(raised.value)

    def offer(self, name: str, **wheel: Any) -> Path:
        path = build_wheel(self.folder / "files", name=name, **{"tags": PURE, **wheel})
        self.index.offer(path, name)
        return path

    def offer_runtime(self, version: str = "1.0", tags: tuple[str, ...] = LINUX) -> Path:
        members = {"x/lib/libx.so.1": build_elf(soname="libx.so.1")}
        return self.offer("x-runtime", version=version, tags=tags, members=members)

    def lay_out(self) -> dict[str, str]:
        """Everything that could be fetched is there: a refusal is none for lack of it."""
        tree = write_source(self.folder / "tree", self.mark)
        sdist = pack_source(tree, self.folder / "sdists")
        self.index.offer(sdist, "evil")
        repository = shutil.copytree(tree, self.folder / "repository")
        if shutil.which("git"):
            identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
            for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "x")):
                subprocess.run(("git", *words), cwd=repository, check=True)
        places = {"tree": tree, "sdist": sdist, "repository": repository}
        return {"index": self.index.url, **{name: path.as_uri() for name, path in places.items()}}

    def took_no_source(self) -> bool:
        return not self.mark.exists() and not any(".tar.gz" in path for path in self.index.asked)


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Ground]:
    """All that the user's settings for pip speak of."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    with serve_index() as served:
        monkeypatch.setenv("PIP_INDEX_URL", f"{served.url}/simple")
        yield Ground(served, tmp_path)


def found(linkage: Linkage) -> dict[str, str | None]:
    return {
        edge.needed: edge.resolved and linkage.layout.shorten_label(edge.resolved)
        for edge in linkage.edges
    }


def test_what_is_required_through_others_is_downloaded_too(ground: Ground) -> None:
    """As torch requires cuda-toolkit[cublas], and that nvidia-cublas."""
    requires = ("x-runtime==1.0.*; extra == 'x' and sys_platform == 'linux'", "y; extra == 'y'")
    ground.offer("toolkit", requires=requires)
    for version, tags in (("1.0", LINUX), ("2.0", LINUX), ("1.0", WINDOWS)):
        ground.offer_runtime(version, tags)
    linkage = ground.simulate("toolkit[x]", "z; sys_platform == 'win32'")
    assert found(linkage)["libx.so.1"] == RUNTIME
    assert not linkage.requirements
    assert sorted(path.name for path in (ground.folder / "kept").rglob("*.whl")) == [
        "toolkit-1.0-py3-none-any.whl",
        "x_runtime-1.0-py3-none-manylinux_2_17_x86_64.whl",
    ]


def test_what_is_asked_of_one_name_by_several_is_asked_together(ground: Ground) -> None:
    ground.offer("other", requires=("x-runtime<2",))
    ground.offer_runtime()
    ground.offer_runtime("2.0")
    linkage = ground.simulate("x-runtime", "other")
    assert found(linkage)["libx.so.1"] == RUNTIME
    assert linkage.refused == ()


def test_what_was_given_is_not_downloaded(ground: Ground) -> None:
    given = ground.offer_runtime()
    ground.index.asked.clear()
    linkage = ground.simulate("x-runtime", shelf=ground.fetching(given))
    assert found(linkage)["libx.so.1"] == RUNTIME
    assert ground.index.asked == []


def test_nothing_is_downloaded_unless_asked_for(ground: Ground) -> None:
    ground.offer_runtime()
    linkage = ground.simulate("x-runtime", shelf=Companions(()))
    assert found(linkage)["libx.so.1"] is None
    assert linkage.requirements == ("x-runtime",)


def test_a_private_folder_is_removed_at_the_end(ground: Ground) -> None:
    ground.offer_runtime()
    shelf = Companions((), fetches=True)
    opened: list[Path] = []
    shelf._open = lambda path: _open(path, opened)  # type: ignore[method-assign]
    ground.simulate("x-runtime", shelf=shelf)
    assert [path.exists() for path in opened] == [True]
    shelf.close()
    assert [path.exists() for path in opened] == [False]


def _open(path: Path, opened: list[Path]) -> Package:
    opened.append(path)
    return packages.open_package(path, objects)


def test_an_index_without_a_wheel_for_the_tags_platform_is_a_problem(ground: Ground) -> None:
    ground.offer_runtime(tags=WINDOWS)

    def judge(shelf: Companions) -> list[Finding]:
        facts = ground.open("x-runtime>=1", shelf=shelf)
        return [*requirement_without_wheel(facts.get(Wheel), facts.get(RequiredWheels))]

    lack = "the index has no wheel of x-runtime>=1 for cp311 on manylinux_2_17_x86_64 or newer"
    with pytest.raises(GatherError) as raised:
        ground.simulate("x-runtime>=1")
    assert str(raised.value) == f"requirements: {lack}; give one with --binary-with"
    (problem,) = judge(ground.fetching())
    assert problem == Problem(
        path="demo-1.0.dist-info/METADATA",
        sentence=f"requires a distribution that cannot be installed: {lack}",
    )
    ground.offer_runtime()
    assert judge(ground.fetching()) == []
    with pytest.raises(NotApplicable, match="only with --binary-with-requirements"):
        judge(Companions(()))


def test_an_index_that_is_not_reached_is_one_line(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(GatherError, match=r"the index cannot be reached: .*/x-runtime/: "):
        ground.simulate("x-runtime")


def test_a_folder_that_cannot_be_made_is_one_line(ground: Ground) -> None:
    (ground.folder / "kept").touch()
    # POSIX's words, and Windows's.
    words = "Not a directory|File exists|Cannot create a file|The directory"
    with pytest.raises(GatherError, match=rf"requirements: .*kept.*: ({words})"):
        ground.simulate("x-runtime")


def test_a_folder_may_hold_what_the_interpreter_does_not_take(tmp_path: Path) -> None:
    build_wheel(tmp_path, name="other", tags=("cp27-none-win32",))
    build_wheel(tmp_path, name="wanted", tags=PURE)
    judged = build_wheel(tmp_path, tags=PURE, requires=("wanted",), members={"demo.py": ""})
    shelf = Companions((tmp_path,))
    facts = Facts(FileSource(path=judged), running(given=(tmp_path,)), shelf)
    assert facts.get(InstallReport).error == ""
    assert [package.path.name.partition("-")[0] for package in shelf.others(judged)] == [
        "other",
        "wanted",
    ]
    facts.close()


@pytest.mark.network
def test_nvidias_wheels_find_each_others_libraries(tmp_path: Path) -> None:
    options = ("--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64")
    pip = (sys.executable, "-m", "pip", "download", *options, "--dest", str(tmp_path))
    subprocess.run((*pip, "nvidia-cusparse-cu12==12.5.10.65"), check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shelf = Companions((), fetches=True)
    linkage = Facts(FileSource(path=wheel), RunSettings(), shelf).get(Linkage)
    shelf.close()
    place = "wheel:nvidia-nvjitlink-cu12:nvidia/nvjitlink/lib/libnvJitLink.so.12"
    assert found(linkage)["libnvJitLink.so.12"] == place
    assert linkage.missing_versions == ()
    assert not linkage.requirements


# What a hostile package may require.

PLACES = {
    "https": "https://127.0.0.1:9/evil-1.0.tar.gz",
    "http": "{index}/files/evil-1.0.tar.gz",
    "a wheel": "{index}/files/evil-1.0-py3-none-any.whl",
    "file": "{sdist}",
    "directory": "{tree}",
    "git": "git+{repository}",
    "git by ssh": "git+ssh://git@127.0.0.1/evil.git",
    "hg": "hg+{tree}",
}


def test_the_mark_would_show(tmp_path: Path) -> None:
    tree = write_source(tmp_path / "tree", tmp_path / "mark", backend=True)
    words = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", str(tree))
    subprocess.run((*PIP, *words), cwd=tmp_path, check=False, capture_output=True)
    assert (tmp_path / "mark").read_text().startswith("built ")


@pytest.mark.parametrize("kind", PLACES)
def test_a_requirement_by_url_is_never_fetched(ground: Ground, kind: str) -> None:
    url = PLACES[kind].format(**ground.lay_out())
    advice = "URLs are not fetched: give the wheel with --binary-with"
    assert ground.refusal(f"evil @ {url}") == f"evil is required by URL ({url}); {advice}"
    assert (ground.index.asked, ground.mark.exists()) == ([], False)


@pytest.mark.parametrize(
    ("kind", "by_name_too"),
    [("https", False), ("file", False), ("directory", False), ("git", False), ("file", True)],
)
def test_nor_is_one_that_a_downloaded_wheel_has(
    ground: Ground, kind: str, by_name_too: bool
) -> None:
    """Its metadata arrives only when pip has run already."""
    url = PLACES[kind].format(**ground.lay_out())
    ground.offer("inner", requires=(f"evil @ {url} ; extra == 'x'",))
    ground.offer("evil")
    ground.index.asked.clear()
    more = ("evil",) if by_name_too else ()
    assert ground.refusal("inner[x]", *more).startswith(f"evil is required by URL ({url})")
    assert ground.took_no_source()


def test_without_the_extra_it_does_not_matter(ground: Ground) -> None:
    ground.offer("inner", requires=("evil @ file:///x ; extra == 'x'",))
    assert not ground.simulate("inner").requirements
    assert not ground.mark.exists()


def test_one_whose_wheel_is_given_is_not_refused(ground: Ground, tmp_path: Path) -> None:
    shelf = ground.fetching(build_wheel(tmp_path / "given", name="evil", tags=PURE))
    assert not ground.simulate("evil @ https://x/y.zip", shelf=shelf).requirements


@pytest.mark.parametrize(("backend", "setting"), [(True, ""), (False, ""), (True, "PIP_NO_BINARY")])
def test_an_sdist_is_not_built(
    ground: Ground, backend: bool, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting or "UNUSED", ":all:" if "NO_BINARY" in setting else "1")
    tree = write_source(ground.folder / "tree", ground.mark, backend=backend)
    ground.index.offer(pack_source(tree, ground.folder / "sdists"), "evil")
    with pytest.raises(GatherError, match="the index has no wheel of evil for cp311 on"):
        ground.simulate("evil")
    assert ground.took_no_source()


@pytest.mark.parametrize("scheme", ["", "git+", "hg+"])
def test_a_page_of_the_index_that_leads_elsewhere_builds_nothing(
    ground: Ground, scheme: str
) -> None:
    repository = f"{scheme}{ground.lay_out()['repository']}"
    names = ("evil-1.0-py3-none-any.whl", "evil-1.0.tar.gz", "#egg=evil-1.0")
    for name in names:
        ground.index.link(f"{repository}/{name}", "evil")
    with pytest.raises(GatherError, match=r"^requirements: "):
        ground.simulate("evil")
    assert not ground.mark.exists()
    assert list((ground.folder / "kept").rglob("*.whl")) == []


@pytest.mark.parametrize("own", ["Name: other\nVersion: 1.0", "Name: x-runtime\nVersion: 2.0"])
def test_a_wheel_that_lies_about_its_name_is_refused(ground: Ground, own: str) -> None:
    ground.offer("x-runtime", metadata=f"Metadata-Version: 2.1\n{own}\n")
    with pytest.raises(GatherError, match=r"^requirements: "):
        ground.simulate("x-runtime")


def test_a_wheel_that_lies_is_refused_by_us_too(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every pip compares the names, and in a folder that is used again pip has no say."""
    about = "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n"

    def download(names: list[str], python: object, folder: Path) -> str:
        build_wheel(folder, name="x-runtime", tags=PURE, metadata=about)
        return ""

    monkeypatch.setattr(required, "download", download)
    with pytest.raises(GatherError) as raised:
        ground.simulate("x-runtime")
    said = "x_runtime-1.0-py3-none-any.whl from the index says that it is other 1.0"
    assert str(raised.value) == f"requirements: {said}"


@pytest.mark.parametrize(
    "version", ["===/../../{0}/tree", "===../tree", "===./tree", "===file:///{0}/tree"]
)
def test_a_version_that_is_a_path_is_refused(
    ground: Ground, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip takes ``evil===/../../x`` for the folder /x, and builds it."""
    ground.lay_out()
    monkeypatch.chdir(ground.folder)
    text = version.format(str(ground.folder).lstrip("/"))
    assert ground.refusal(f"evil {text}").startswith(
        f"evil is required without a valid version ({text})"
    )
    assert (ground.index.asked, ground.mark.exists()) == ([], False)


@pytest.mark.parametrize(
    "requirement",
    ["evil==1.0+a.zip", "evil===1.0.tar.gz", "evil.tar.gz", "evil-1.0-py3-none-any.whl"],
)
def test_a_file_of_the_folder_is_not_taken_for_a_requirement(
    ground: Ground, requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = write_source(ground.folder / "tree", ground.mark)
    here = ground.folder / "here"
    shutil.copy(pack_source(tree, here), here / requirement)
    monkeypatch.chdir(here)
    # pip 24.1 and later take no version that is none.
    with pytest.raises(GatherError, match=r"the index has no wheel of evil|Invalid version"):
        ground.simulate(requirement)
    assert not ground.mark.exists()


@pytest.mark.parametrize(
    "text", ["-r x", "--index-url=http://127.0.0.1:9", "./tree", "-e ./tree", "../tree"]
)
def test_what_is_no_requirement_reaches_no_command_line_and_is_not_passed_over(
    ground: Ground, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.lay_out()
    monkeypatch.chdir(ground.folder)
    assert ground.refusal(text) == f"Requires-Dist {text[:200]!r} cannot be read; correct it"
    assert (ground.index.asked, ground.mark.exists()) == ([], False)


def test_inspect_says_what_it_did_not_fetch(
    ground: Ground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = write_source(tmp_path / "tree", ground.mark)
    wheel = build_wheel(tmp_path, members={EXTENSION: NEEDY}, requires=(f"evil @ {tree.as_uri()}",))
    assert main(["inspect", str(wheel), "--json", "--binary-with-requirements"]) == 0
    assert "without linkage: evil is required by URL (file://" in capsys.readouterr().err
    assert not ground.mark.exists()


def test_the_installer_leaves_nothing_in_the_systems_folder(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip killed, or refused a folder, forgets its own there."""
    place = tmp_path / "system"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    ground.offer("x-runtime")
    ground.simulate("x-runtime")
    assert list(place.iterdir()) == []


def test_a_relative_folder_of_links_is_one_of_the_current_folder(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_wheel(tmp_path / "links", name="x-runtime", tags=PURE)
    monkeypatch.setenv("PIP_FIND_LINKS", "links")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    assert not ground.simulate("x-runtime").requirements
