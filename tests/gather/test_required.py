"""What a package requires is downloaded for the package's own system, from the user's index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks import objects, packages
from binary_checks.checks.metadata import requirement_without_wheel
from binary_checks.errors import GatherError, NotApplicable
from binary_checks.examination.facts import Facts
from binary_checks.examination.settings import RunSettings
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
from binary_checks.sources.file import FileSource
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import running

pytest.importorskip("pip", reason="no pip here")

PURE = ("py3-none-any",)
LINUX = ("py3-none-manylinux_2_17_x86_64",)
WINDOWS = ("py3-none-win_amd64",)
EXTENSION = "demo/_native.cpython-311-x86_64-linux-gnu.so"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all the user's settings for pip speak of."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def judged(folder: Path, *requires: str) -> Path:
    """A wheel whose extension needs libx.so.1, and finds it where x-runtime puts it."""
    folder.mkdir(exist_ok=True)
    native = build_elf(needed=("libx.so.1",), runpath="$ORIGIN/../x/lib")
    return build_wheel(folder, members={EXTENSION: native}, requires=requires)


def runtime(folder: Path, version: str = "1.0", tags: tuple[str, ...] = LINUX) -> Path:
    members = {"x/lib/libx.so.1": build_elf(soname="libx.so.1")}
    return build_wheel(folder, name="x-runtime", version=version, tags=tags, members=members)


def simulate(wheel: Path, shelf: Companions) -> Linkage:
    return Facts(FileSource(path=wheel), RunSettings(), shelf).get(Linkage)


def found(linkage: Linkage) -> dict[str, str | None]:
    return {
        edge.needed: edge.resolved and linkage.layout.shorten_label(edge.resolved)
        for edge in linkage.edges
    }


def test_what_is_required_through_others_is_downloaded_too(index: Path, tmp_path: Path) -> None:
    """As torch requires cuda-toolkit[cublas], and that nvidia-cublas."""
    requires = ("x-runtime==1.0.*; extra == 'x' and sys_platform == 'linux'", "y; extra == 'y'")
    build_wheel(index, name="toolkit", tags=PURE, requires=requires)
    runtime(index)
    runtime(index, "2.0")
    runtime(index, tags=WINDOWS)
    wheel = judged(tmp_path / "dist", "toolkit[x]", "z; sys_platform == 'win32'")
    shelf = Companions((), folder=tmp_path / "kept", fetches=True)
    linkage = simulate(wheel, shelf)
    assert found(linkage)["libx.so.1"] == "wheel:x-runtime:x/lib/libx.so.1"
    assert not linkage.requirements
    assert sorted(path.name for path in (tmp_path / "kept").rglob("*.whl")) == [
        "toolkit-1.0-py3-none-any.whl",
        "x_runtime-1.0-py3-none-manylinux_2_17_x86_64.whl",
    ]


def test_what_is_asked_of_one_name_by_several_is_asked_together(
    index: Path, tmp_path: Path
) -> None:
    build_wheel(index, name="other", tags=PURE, requires=("x-runtime<2",))
    runtime(index)
    runtime(index, "2.0")
    wheel = judged(tmp_path / "dist", "x-runtime", "other")
    linkage = simulate(wheel, Companions((), fetches=True, folder=tmp_path / "kept"))
    assert found(linkage)["libx.so.1"] == "wheel:x-runtime:x/lib/libx.so.1"
    assert linkage.refused == ()


def test_what_was_given_is_not_downloaded(index: Path, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    given = runtime(tmp_path / "given")
    wheel = judged(tmp_path / "dist", "x-runtime")
    linkage = simulate(wheel, Companions([given], fetches=True, folder=tmp_path / "kept"))
    assert found(linkage)["libx.so.1"] == "wheel:x-runtime:x/lib/libx.so.1"


def test_nothing_is_downloaded_unless_asked_for(index: Path, tmp_path: Path) -> None:
    runtime(index)
    linkage = simulate(judged(tmp_path / "dist", "x-runtime"), Companions(()))
    assert found(linkage)["libx.so.1"] is None
    assert linkage.requirements == ("x-runtime",)


def test_a_private_folder_is_removed_at_the_end(index: Path, tmp_path: Path) -> None:
    runtime(index)
    shelf = Companions((), fetches=True)
    opened: list[Path] = []
    shelf._open = lambda path: _open(path, opened)  # type: ignore[method-assign]
    simulate(judged(tmp_path / "dist", "x-runtime"), shelf)
    assert [path.exists() for path in opened] == [True]
    shelf.close()
    assert [path.exists() for path in opened] == [False]


def _open(path: Path, opened: list[Path]) -> Package:
    opened.append(path)
    return packages.open_package(path, objects)


def test_an_index_without_a_wheel_for_the_tags_platform_is_a_problem(
    index: Path, tmp_path: Path
) -> None:
    runtime(index, tags=WINDOWS)
    wheel = judged(tmp_path / "dist", "x-runtime>=1")

    def judge(shelf: Companions) -> list[Finding]:
        facts = Facts(FileSource(path=wheel), RunSettings(), shelf)
        return [*requirement_without_wheel(facts.get(Wheel), facts.get(RequiredWheels))]

    lack = "the index has no wheel of x-runtime>=1 for cp311 on manylinux_2_17_x86_64 or newer"
    with pytest.raises(GatherError) as raised:
        simulate(wheel, Companions((), fetches=True, folder=tmp_path / "kept"))
    assert str(raised.value) == f"requirements: {lack}; give one with --binary-with"
    (problem,) = judge(Companions((), fetches=True, folder=tmp_path / "kept"))
    assert problem == Problem(
        path="demo-1.0.dist-info/METADATA",
        sentence=f"requires a distribution that cannot be installed: {lack}",
    )
    runtime(index)
    assert judge(Companions((), fetches=True, folder=tmp_path / "kept")) == []
    with pytest.raises(NotApplicable, match="only with --binary-with-requirements"):
        judge(Companions(()))


def test_an_index_that_is_not_reached_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("NO_INDEX", ""), ("RETRIES", "1"), ("EXTRA_INDEX_URL", "")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(GatherError, match=r"the index cannot be reached: .*/x-runtime/: "):
        shelf = Companions((), fetches=True, folder=tmp_path / "kept")
        simulate(judged(tmp_path / "dist", "x-runtime"), shelf)


# POSIX's words, and Windows's.
_REFUSED = (
    r"requirements: .*kept.*: (Not a directory|File exists|Cannot create a file|The directory)"
)


def test_a_folder_that_cannot_be_made_is_one_line(index: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(GatherError, match=_REFUSED):
        wheel = judged(tmp_path / "dist", "x-runtime")
        simulate(wheel, Companions((), fetches=True, folder=tmp_path / "kept"))


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
    linkage = simulate(wheel, shelf)
    shelf.close()
    place = "wheel:nvidia-nvjitlink-cu12:nvidia/nvjitlink/lib/libnvJitLink.so.12"
    assert found(linkage)["libnvJitLink.so.12"] == place
    assert linkage.missing_versions == ()
    assert not linkage.requirements
