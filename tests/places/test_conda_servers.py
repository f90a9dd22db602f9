"""A channel that is down, lies, or sends garbage breaks the run, and is not the package's fault."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import GatherError
from binary_checks.model import CondaPackage, InstallReport
from binary_checks.places import PlaceSettings, choose_place
from fixtures.environments import demand_sandbox
from fixtures.package_index import Conduct, PackageIndex, serve_index

pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")
if sys.platform != "linux":
    pytest.skip("the stub of Python is a link of Linux", allow_module_level=True)

from fixtures.conda.channel import build_python, change_repodata, host_subdir, index
from fixtures.conda.prefixes import build, build_channel, install


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_channel(tmp_path_factory.mktemp("channel"))


DAMAGED = {
    "html": (b"<!DOCTYPE html><html>Not found</html>", "JSON|repodata|expected"),
    "cut": (b'{"packages.conda": {"python-3', "EOF|JSON|repodata"),
    "empty": (b"", "EOF|JSON|repodata"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_channel_of_garbage_is_not_the_packages_fault(
    tmp_path: Path, channel: Path, kind: str
) -> None:
    content, reason = DAMAGED[kind]
    (tmp_path / "bad" / host_subdir()).mkdir(parents=True)
    (tmp_path / "bad" / host_subdir() / "repodata.json").write_bytes(content)
    with pytest.raises(GatherError, match=reason) as caught:
        install(build(tmp_path), tmp_path / "bad")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_channel_that_lies_about_a_hash_is_not_the_packages_fault(tmp_path: Path) -> None:
    python = build_python(tmp_path / "bad", subdir=host_subdir())
    index(tmp_path / "bad")
    change_repodata(tmp_path / "bad", host_subdir(), python.name, sha256="0" * 64)
    with pytest.raises(GatherError, match=rf"{python.name}: the channel states sha256 0000"):
        install(build(tmp_path), tmp_path / "bad")


@pytest.mark.slow
def test_a_package_that_the_channel_lost_is_not_the_packages_fault(tmp_path: Path) -> None:
    python = build_python(tmp_path / "bad", subdir=host_subdir())
    index(tmp_path / "bad")
    python.unlink()
    with pytest.raises(GatherError, match=f"{python.name}: cannot be read: No such file"):
        install(build(tmp_path), tmp_path / "bad")


@pytest.fixture
def server(channel: Path) -> Iterator[PackageIndex]:
    with serve_index() as index:
        index.folders["channel"] = channel
        yield index


def install_from(server: PackageIndex, package: CondaPackage, **changes: Any) -> InstallReport:
    usual = {"python": Path(sys.executable), "timeout": 120, **changes}
    channels = (f"{server.url}/channel",)
    settings = PlaceSettings(**usual, sandbox=demand_sandbox("auto"), channels=channels)
    with choose_place(package, settings) as place:
        report = place.install(package)
    assert report is not None
    return report


@pytest.mark.slow
def test_a_channel_may_be_a_server(tmp_path: Path, server: PackageIndex) -> None:
    assert install_from(server, build(tmp_path)).error == ""


REPODATA = f"/channel/{host_subdir()}/repodata.json"
NOARCH = "/channel/noarch/repodata.json"  # what every channel has
BROKEN: dict[str, tuple[Conduct, str]] = {
    "html": (Conduct(html=True), "expected value|HTML|repodata"),
    "failing": (Conduct(failures=[500] * 20), "500|repodata"),
    "cut": (Conduct(cut_after=200), "repodata|error|EOF"),
    "absent": (Conduct(failures=[404] * 20), "404|repodata|not found"),
    "stalled": (Conduct(pause=30), "py-rattler took longer than 4 s"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_server_that_breaks_is_one_line_and_not_the_packages_fault(
    tmp_path: Path, server: PackageIndex, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    conduct, reason = BROKEN[kind]
    server.conduct[NOARCH if kind == "absent" else REPODATA] = conduct
    with pytest.raises(GatherError, match=reason) as caught:
        install_from(server, build(tmp_path), timeout=4 if kind == "stalled" else 60)
    said = str(caught.value)
    assert "\n" not in said
    assert str(private) not in said
    assert list(private.iterdir()) == []


@pytest.mark.slow
def test_a_download_that_is_another_file_is_not_linked(
    tmp_path: Path, server: PackageIndex, channel: Path
) -> None:
    name = next((channel / host_subdir()).glob("python-*")).name
    server.conduct[f"/channel/{host_subdir()}/{name}"] = Conduct(html=True)
    with pytest.raises(GatherError, match=rf"{name}: the channel states sha256 \w+, the file has"):
        install_from(server, build(tmp_path))


@pytest.mark.slow
def test_credentials_of_a_channel_are_not_shown(tmp_path: Path) -> None:
    package = build(tmp_path)
    for secret in ("http://me:hunter2@127.0.0.1:9/x", "http://127.0.0.1:9/t/hunter2/x"):
        settings = PlaceSettings(python=Path(sys.executable), timeout=60, channels=(secret,))
        with pytest.raises(GatherError) as caught, choose_place(package, settings) as place:
            place.install(package)
        assert "hunter2" not in str(caught.value)
        assert "127.0.0.1:9" in str(caught.value)
