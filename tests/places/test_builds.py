"""Installers build nothing and follow no requirement by URL, unless the user allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.errors import BinaryChecksError, Unavailable
from binary_checks.places import installers
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, install_fresh, read_wheel
from fixtures.package_index import PackageIndex, pack_source, serve_index, write_source
from fixtures.slow import slow

each_installer = pytest.mark.parametrize("index", ["uv", "pip", *slow("ensurepip")], indirect=True)
"""For tests of what pip and uv say in different words; of the others pip runs the slow ones."""


@pytest.fixture(params=["uv", *slow("pip", "ensurepip")])
def index(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[PackageIndex]:
    """All that the user's settings speak of, and one installer."""
    if request.param == "uv" and installers.find_uv() is None:
        pytest.skip("no uv here")
    if request.param == "pip":
        pytest.importorskip("pip", reason="no pip here")
    if request.param != "uv":
        monkeypatch.setattr(installers, "find_uv", lambda: None)
    if request.param == "ensurepip":
        monkeypatch.setattr(installers.importlib.util, "find_spec", lambda name: None)
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    with serve_index() as served:
        monkeypatch.setenv("PIP_INDEX_URL", f"{served.url}/simple")
        yield served


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def tree(tmp_path: Path, mark: Path) -> Path:
    """A source tree that leaves a mark, with a build backend of its own."""
    return write_source(tmp_path / "tree", mark, backend=True)


def wheel(folder: Path, name: str, *requires: str, version: str = "1.0") -> Path:
    members = {f"{name}/__init__.py": "value = 1\n"}
    return build_wheel(
        folder, name=name, version=version, tags=PURE, requires=requires, members=members
    )


def install(folder: Path, *requires: str, builds: bool = False, **more: object) -> FilledPlace:
    judged = read_wheel(wheel(folder / "dist", "demo", *requires))
    return install_fresh(judged, builds=builds, **more)


@each_installer
@pytest.mark.parametrize("required", ["half>=2", *slow("evil")])
def test_what_has_no_wheel_is_not_built(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path, required: str
) -> None:
    """With builds a user may have it: the package is not to blame."""
    index.offer(pack_source(tree, tmp_path / "sources"), "evil")
    index.offer(wheel(tmp_path / "files", "half"), "half")
    index.offer(pack_source(tree, tmp_path / "sources", name="half", version="2.0"), "half")
    with pytest.raises(Unavailable, match=r"no wheel for this .*, and only --binary-allow-builds"):
        install(tmp_path, required)
    assert not mark.exists()


@pytest.mark.parametrize("required", ["half>=9", *slow("absent")])
def test_what_no_build_would_give_is_the_packages_fault(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path, required: str
) -> None:
    index.offer(wheel(tmp_path / "files", "half"), "half")
    index.offer(pack_source(tree, tmp_path / "sources", name="half", version="2.0"), "half")
    with install(tmp_path, required) as environment:
        assert required.partition(">")[0] in environment.install_report.error
    assert not mark.exists()


def test_a_wheel_is_taken_where_there_are_sources_too(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path
) -> None:
    index.offer(wheel(tmp_path / "files", "half"), "half")
    index.offer(pack_source(tree, tmp_path / "sources", name="half", version="2.0"), "half")
    with install(tmp_path, "half") as environment:
        assert environment.install_report.error == ""
        assert (environment.site_packages / "half-1.0.dist-info").is_dir()
    assert not mark.exists()


PLACES = (
    "{tree}",
    *slow("{index}/files/evil-1.0.tar.gz", "git+{tree}", "https://127.0.0.1:9/evil.zip"),
)


@pytest.mark.parametrize("place", PLACES)
def test_what_the_package_requires_by_url_is_not_followed(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path, place: str
) -> None:
    index.offer(pack_source(tree, tmp_path / "sources"), "evil")
    url = place.format(tree=tree.as_uri(), index=index.url)
    with pytest.raises(Unavailable) as raised:
        install(tmp_path, f"evil @ {url}")
    advice = "only --binary-allow-builds follows the URL, and builds the package there"
    assert str(raised.value) == f"evil is required by URL ({url}); {advice}"
    assert (mark.exists(), index.asked) == (False, [])


@each_installer
@pytest.mark.parametrize("place", PLACES)
def test_nor_is_what_a_package_of_the_index_requires_by_url(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path, place: str
) -> None:
    index.offer(pack_source(tree, tmp_path / "sources"), "evil")
    url = place.format(tree=tree.as_uri(), index=index.url)
    index.offer(wheel(tmp_path / "files", "inner", f"evil @ {url}"), "inner")
    index.offer(wheel(tmp_path / "files", "outer", "inner"), "outer")
    sentence = r"^a package requires another by URL, which only --binary-allow-builds follows: .*"
    with pytest.raises(Unavailable, match=sentence):
        install(tmp_path, "outer")
    assert not mark.exists()
    assert not any(path.endswith(".tar.gz") for path in index.asked)


@pytest.mark.parametrize("as_folder", [True, *slow(False)])
def test_nor_is_what_a_given_wheel_requires_by_url(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path, as_folder: bool
) -> None:
    about = "Metadata-Version: 2.1\nName: inner\nVersion: 1.0\nProvides-Extra: x\n"
    about += f"Requires-Dist: evil @ {tree.as_uri()} ; extra == 'x'\n"
    given = build_wheel(tmp_path / "given", name="inner", tags=PURE, metadata=about)
    with pytest.raises(Unavailable, match="by URL"):
        install(tmp_path, "inner[x]", given=(given.parent if as_folder else given,))
    assert not mark.exists()


def test_a_url_behind_a_marker_that_is_false_does_not_matter(
    index: PackageIndex, tmp_path: Path, mark: Path
) -> None:
    requires = ("evil @ file:///x ; python_version < '3'", "evil @ file:///x ; extra == 'x'")
    with install(tmp_path, *requires) as environment:
        assert environment.install_report.error == ""


@pytest.mark.parametrize("setting", ["PIP_FIND_LINKS", *slow("UV_FIND_LINKS")])
def test_relative_settings_are_of_the_users_folder(
    index: PackageIndex, tmp_path: Path, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "links", "other")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", "links")
    if setting == "UV_FIND_LINKS":
        monkeypatch.setenv(setting, "links,")
        monkeypatch.setenv(
            "UV_NO_INDEX", "1"
        )  # where it has settings of its own, pip's do not hold
    with install(tmp_path, "other") as environment:
        assert environment.install_report.error == ""


@each_installer
@pytest.mark.parametrize("required", ["evil", *slow("evil @ {tree}")])
def test_where_the_user_allows_it_it_is_built(
    index: PackageIndex, tmp_path: Path, tree: Path, mark: Path, required: str
) -> None:
    index.offer(pack_source(tree, tmp_path / "sources"), "evil")
    try:
        install(tmp_path, required.format(tree=tree.as_uri()), builds=True).close()
    except BinaryChecksError as error:
        assert "--binary-allow-builds" not in str(error)
    assert mark.exists()
