"""The wheel that is chosen is the one that pip chooses; where there is none, one line says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags

from binary_checks.errors import GatherError, ProfileError
from binary_checks.indexes.choice import Wish, choose
from binary_checks.indexes.index_places import IndexPlaces, list_files, read_index_places
from binary_checks.indexes.simple_page import ListedFile
from binary_checks.places.foreign_tags import read_target_name
from binary_checks.places.pip_command import PIP, has_pip
from binary_checks.web.client import Client
from binary_checks.web.web_settings import WebSettings
from fixtures.build_wheel import build_wheel
from fixtures.package_index import Conduct, PackageIndex, serve_index


def listed(*names: str, **said: object) -> list[ListedFile]:
    return [
        ListedFile(file_name=name, url=f"https://i/{name}", **said)  # type: ignore[arg-type]
        for name in names
    ]


def pick(
    files: Sequence[ListedFile],
    requirement: str = "demo",
    target: str = "cp312-manylinux_2_28_x86_64",
    prereleases: bool = False,
) -> str:
    wanted, there = Requirement(requirement), read_target_name(target)
    wish = Wish(
        asked=requirement,
        project=wanted.name,
        specifier=wanted.specifier,
        tags=there.tags,
        python="{}.{}.0".format(*there.version),
        label=f"{there.abi} on {there.platforms[0]}",
        prereleases=prereleases,
    )
    return choose(files, wish, "https://i").file_name


def refusal(files: Sequence[ListedFile], requirement: str = "demo", **more: str) -> str:
    with pytest.raises(ProfileError) as caught:
        pick(files, requirement, **more)
    return str(caught.value)


def name(version: str, tag: str = "py3-none-any", build: str = "") -> str:
    return f"demo-{version}-{build + '-' if build else ''}{tag}.whl"


@pytest.mark.parametrize(
    ("names", "requirement", "chosen"),
    [
        ([name("1.0"), name("1.10"), name("1.9")], "demo", name("1.10")),
        ([name("1.0"), name("2.0rc1")], "demo", name("1.0")),
        ([name("2.0rc1")], "demo", name("2.0rc1")),
        ([name("1.0"), name("2.0rc1")], "demo>=2.0rc1", name("2.0rc1")),
        ([name("1.0"), name("1.0+cpu")], "demo==1.0", name("1.0+cpu")),
        ([name("1.0"), name("1.0", build="2")], "demo", name("1.0", build="2")),
        ([name("1.0", build="10"), name("1.0", build="9a")], "demo", name("1.0", build="10")),
        (
            [name("1.0"), name("1.0", "cp312-cp312-manylinux_2_17_x86_64")],
            "demo",
            name("1.0", "cp312-cp312-manylinux_2_17_x86_64"),
        ),
        (
            [
                name("1.0", "cp312-cp312-manylinux_2_17_x86_64"),
                name("1.0", "cp312-cp312-manylinux_2_28_x86_64"),
                name("1.0", "cp312-cp312-manylinux_2_34_x86_64"),
            ],
            "demo",
            name("1.0", "cp312-cp312-manylinux_2_28_x86_64"),
        ),
        (
            [name("1.0", "cp39-abi3-manylinux_2_17_x86_64"), name("1.0", "cp312-none-any")],
            "demo",
            name("1.0", "cp39-abi3-manylinux_2_17_x86_64"),
        ),
    ],
)
def test_the_best_one_is_chosen(names: list[str], requirement: str, chosen: str) -> None:
    assert pick(listed(*names), requirement) == chosen
    assert pick(listed(*reversed(names)), requirement) == chosen


def test_prereleases_are_a_setting() -> None:
    files = listed(name("1.0"), name("2.0rc1"))
    assert pick(files, prereleases=True) == name("2.0rc1")


def test_requires_python_decides() -> None:
    files = [*listed(name("1.0")), *listed(name("2.0"), requires_python=">=3.13")]
    assert pick(files) == name("1.0")
    assert pick(files, target="cp313-win_amd64") == name("2.0")
    odd = listed(name("3.0"), requires_python="nonsense")
    assert pick([*files, *odd]) == name("3.0")


def test_a_yanked_one_is_taken_by_its_version_alone() -> None:
    files = [*listed(name("1.0")), *listed(name("2.0"), yanked="broken")]
    assert pick(files) == name("1.0")
    assert pick(files, "demo==2.0") == name("2.0")
    assert "what fits was yanked (broken)" in refusal(files, "demo>=2")
    assert "what fits was yanked (broken)" in refusal(files, "demo==2.*")


@pytest.mark.parametrize(
    ("target", "tag"),
    [
        ("cp312-win_amd64", "cp312-cp312-win_amd64"),
        ("cp313t-win_arm64", "cp313-cp313t-win_arm64"),
        ("312-win32", "cp312-cp312-win32"),
        ("3.12-macosx_14_0_arm64", "cp312-cp312-macosx_11_0_arm64"),
        ("cp311-macosx_10_13_x86_64", "cp311-cp311-macosx_10_9_universal2"),
        ("cp311-manylinux2014_aarch64", "cp311-cp311-manylinux_2_17_aarch64"),
        ("cp311-musllinux_1_2_x86_64", "cp311-cp311-musllinux_1_1_x86_64"),
    ],
)
def test_targets_are_named_by_a_python_and_a_platform(target: str, tag: str) -> None:
    others = [name("1.0", "cp310-cp310-win_amd64"), name("1.0", "cp312-cp312-linux_s390x")]
    assert pick(listed(*others, name("1.0", tag)), target=target) == name("1.0", tag)


@pytest.mark.parametrize("target", ["win_amd64", "cp312", "cp312-amiga", "py3-any", "cp27-win32"])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(ProfileError, match=f"{target}: no target; name a Python and a platform"):
        read_target_name(target)


@pytest.mark.parametrize(
    ("files", "requirement", "said"),
    [
        ([], "demo==1", "demo==1: no package of the name demo there (asked: https://i)"),
        (listed("other-1.0-py3-none-any.whl"), "demo==1", "no package of the name demo there"),
        (listed(name("1.0"), name("2.0")), "demo==3", "no such version there; there are 2.0, 1.0"),
        (
            listed(name("1.0", "cp312-cp312-win_amd64")),
            "demo",
            "no wheel for cp312 on manylinux_2_28_x86_64; 1.0 has cp312-cp312-win_amd64",
        ),
        (
            listed(name("1.0"), requires_python=">=3.14"),
            "demo",
            "no wheel for cp312 on manylinux_2_28_x86_64; 1.0 requires Python >=3.14",
        ),
        (
            listed("demo-1.0.tar.gz"),
            "demo==1.0",
            "only a source distribution there (demo-1.0.tar.gz): build a wheel from it",
        ),
    ],
)
def test_where_there_is_none_one_line_says_what_there_is(
    files: list[ListedFile], requirement: str, said: str
) -> None:
    assert said in refusal(files, requirement)


# With pip as the witness.


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with serve_index() as index:
        yield index


def ask_pip(arguments: Sequence[str], **variables: str) -> str:
    """The file that pip would install; "" where it finds none."""
    if not has_pip():
        pytest.skip("no pip here")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", **variables}
    options = ("--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:")
    options += ("--disable-pip-version-check", "--retries", "0", "--report", "-")
    ended = subprocess.run(
        (*PIP, "install", *options, *arguments),
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        assert "No matching distribution" in ended.stderr, ended.stderr
        return ""
    report = json.loads(ended.stdout)
    return unquote(report["install"][0]["download_info"]["url"].rpartition("/")[2])


def ask_us(requirement: str, places: IndexPlaces, target: str = "") -> str:
    wanted = Requirement(requirement)
    tags = read_target_name(target).tags if target else tuple(sys_tags())
    python = (
        target[2] + "." + target[3:5] + ".0" if target else "3.{}.{}".format(*sys.version_info[1:3])
    )
    wish = Wish(
        asked=requirement,
        project=wanted.name,
        specifier=wanted.specifier,
        tags=tags,
        python=python,
        label="",
        prereleases=places.prereleases,
    )
    try:
        files = list_files(Client(WebSettings(retries=0)), places, wanted.name)
        return choose(files, wish, "").file_name
    except ProfileError:
        return ""


def offer(index: PackageIndex, folder: Path, version: str, *tags: str, **said: object) -> None:
    build = str(said.pop("build", ""))
    wheel = build_wheel(folder, version=version, tags=tags or ("py3-none-any",), build=build)
    index.offer(wheel, "demo", **said)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("speaks_json", [True, False])
def test_pip_chooses_the_same(index: PackageIndex, tmp_path: Path, speaks_json: bool) -> None:
    index.speaks_json = speaks_json
    mine = next(sys_tags())
    own = f"{mine.interpreter}-{mine.abi}-{mine.platform}"
    offer(index, tmp_path, "1.0")
    offer(index, tmp_path, "1.0", own)
    offer(index, tmp_path, "1.0", build="3")
    offer(index, tmp_path, "1.1", "cp312-cp312-win_amd64")
    offer(index, tmp_path, "1.2", requires_python="<3")
    offer(index, tmp_path, "1.3", requires_python=">=3.8")
    offer(index, tmp_path, "1.4", yanked="why")
    offer(index, tmp_path, "1.5rc1")
    offer(index, tmp_path, "1.0+local", "py3-none-any")
    places = IndexPlaces(indexes=(index.simple,))
    wanted = ["demo", "demo==1.0", "demo==1.4", "demo>=1.4", "demo==1.1", "demo==1.2", "demo<1.3"]
    wanted += [
        "demo>=1.5rc1",
        "demo==1.*",
        "demo!=1.3",
        "demo===1.0",
        "demo~=1.0",
        "demo==1.0+local",
    ]
    for each in wanted:
        assert ask_us(each, places) == ask_pip(["--index-url", index.simple, each]), each
    for each in ("demo", "demo>1.3"):
        chosen = ask_us(each, IndexPlaces(indexes=(index.simple,), prereleases=True))
        assert chosen == ask_pip(["--index-url", index.simple, "--pre", each])


@pytest.mark.slow
def test_pip_chooses_the_same_of_several_places(index: PackageIndex, tmp_path: Path) -> None:
    offer(index, tmp_path / "a", "1.0")
    links = tmp_path / "links"
    build_wheel(links, version="1.0", tags=("py3-none-any",))
    build_wheel(links, version="0.9", tags=("py3-none-any",))
    (links / "more.html").write_text('<a href="demo-0.9-py3-none-any.whl">x</a>')
    folder = tmp_path / "simple" / "demo"
    build_wheel(folder, version="1.0", tags=("py3-none-any",))
    (folder / "index.html").write_text('<a href="demo-1.0-py3-none-any.whl">x</a>')
    local = (tmp_path / "simple").as_uri()
    for variables in (
        {"PIP_INDEX_URL": index.simple, "PIP_FIND_LINKS": str(links)},
        {"PIP_INDEX_URL": index.simple, "PIP_EXTRA_INDEX_URL": local},
        {"PIP_INDEX_URL": local, "PIP_EXTRA_INDEX_URL": index.simple},
        {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)},
    ):
        pip = {name[4:].lower().replace("_", "-"): value for name, value in variables.items()}
        places = read_index_places(pip, {})
        for each in ("demo", "demo<1"):
            assert ask_us(each, places) == ask_pip([each], **variables), (each, variables)


TARGETS = ("cp312-win_amd64", "cp311-macosx_14_0_arm64", "cp313-manylinux_2_28_aarch64")
TARGETS += ("cp310-manylinux2014_x86_64", "cp312-musllinux_1_2_x86_64", "cp313t-win_amd64")


def pip_options(target: str) -> list[str]:
    return [*read_target_name(target).options(), "--target", "unused"]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_pip_chooses_the_same_for_others(index: PackageIndex, tmp_path: Path, target: str) -> None:
    tags = ["cp312-cp312-win_amd64", "cp311-cp311-macosx_11_0_arm64", "cp313-cp313t-win_amd64"]
    tags += ["cp313-cp313-manylinux_2_17_aarch64", "cp313-cp313-manylinux_2_26_aarch64"]
    tags += ["cp39-abi3-manylinux_2_17_x86_64", "cp312-cp312-musllinux_1_1_x86_64"]
    tags += ["cp310-cp310-manylinux_2_12_x86_64", "cp311-cp311-macosx_10_9_universal2"]
    for tag in tags:
        offer(index, tmp_path, "1.0", tag)
    chosen = ask_us("demo", IndexPlaces(indexes=(index.simple,)), target)
    assert chosen
    assert chosen == ask_pip(["--index-url", index.simple, *pip_options(target), "demo"])


PROJECTS = ("numpy==2.2.6", "markupsafe>=3", "pyyaml==6.0.2", "cryptography<46", "lxml==6.0.2")
PROJECTS += ("pydantic-core<3", "grpcio==1.76.0", "orjson<4", "regex", "psutil", "pillow<12")
PROJECTS += ("scipy<1.16", "pandas<3", "zstandard", "aiohttp<4", "uvloop", "torch==2.8.0")


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("requirement", PROJECTS)
def test_pip_chooses_the_same_on_the_index_of_this_machine(requirement: str) -> None:
    from binary_checks.places.index_settings import read_pip_settings
    from binary_checks.web.web_settings import read_web_settings

    settings = read_pip_settings()
    client = Client(read_web_settings(settings, os.environ))
    places = read_index_places(settings, os.environ)
    project = Requirement(requirement).name
    files = list_files(client, places, project)
    for target in ("", *TARGETS):
        wanted = Requirement(requirement)
        tags = read_target_name(target).tags if target else tuple(sys_tags())
        python = (
            f"{target[2]}.{target[3:5]}.0" if target else "3.{}.{}".format(*sys.version_info[1:3])
        )
        wish = Wish(
            asked=requirement,
            project=project,
            specifier=wanted.specifier,
            tags=tags,
            python=python,
            label="",
        )
        try:
            ours = choose(files, wish, "").file_name
        except ProfileError:
            ours = ""
        options = pip_options(target) if target else []
        assert ours == ask_pip_here([*options, requirement]), target


def ask_pip_here(arguments: Sequence[str]) -> str:
    options = ("--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary=:all:")
    options += ("--disable-pip-version-check", "--report", "-")
    ended = subprocess.run(
        (*PIP, "install", *options, *arguments), capture_output=True, text=True, check=False
    )
    if ended.returncode:
        assert "No matching distribution" in ended.stderr, ended.stderr
        return ""
    report = json.loads(ended.stdout)
    return unquote(report["install"][0]["download_info"]["url"].rpartition("/")[2])


# Places that cannot be asked.


def test_an_index_that_is_down_is_named_although_others_answer(
    index: PackageIndex, tmp_path: Path
) -> None:
    """pip goes on without it; what it would have had may be what users get."""
    offer(index, tmp_path, "1.0")
    places = IndexPlaces(indexes=(index.simple, "http://127.0.0.1:9/simple"))
    with pytest.raises(GatherError, match=r"^http://127\.0\.0\.1:9/simple/demo/: Connection"):
        ask_us("demo", places)


def test_an_index_without_the_project_is_none_that_broke(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "1.0")
    places = IndexPlaces(indexes=(f"{index.url}/other", index.simple))
    assert ask_us("demo", places) == name("1.0")


def test_credentials_of_an_index_are_sent_and_not_shown(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "1.0")
    index.conduct["/simple/demo/"] = Conduct(credentials=("me", "secret"))
    simple = index.simple.replace("//", "//me:{}@", 1)
    assert ask_us("demo", IndexPlaces(indexes=(simple.format("secret"),))) == name("1.0")
    with pytest.raises(GatherError) as caught:
        ask_us("demo", IndexPlaces(indexes=(simple.format("wrong"),)))
    assert str(caught.value) == f"{index.simple}demo/: asks for credentials (answers 401)"


def test_an_index_that_pip_leaves_out_is_refused() -> None:
    with pytest.raises(ProfileError, match="pip leaves out an index without https"):
        list_files(Client(), IndexPlaces(indexes=("http://index.example/simple",)), "demo")


def test_the_settings_are_pips_and_else_uvs() -> None:
    pip = {"index-url": "https://a/simple", "extra-index-url": "https://b\nhttps://c", "pre": "1"}
    uv = {
        "UV_DEFAULT_INDEX": "https://u",
        "UV_INDEX": "x=https://v https://w",
        "UV_FIND_LINKS": "/l",
    }
    places = read_index_places(pip, uv)
    assert (places.indexes, places.prereleases) == (
        ("https://a/simple", "https://b", "https://c"),
        True,
    )
    places = read_index_places({}, uv)
    assert (places.indexes, places.links) == (
        ("https://u", "https://v", "https://w"),
        ("file:///l",),
    )
    assert read_index_places({}, {}).indexes == ("https://pypi.org/simple",)
    assert read_index_places({"no-index": "true"}, {}).indexes == ()
