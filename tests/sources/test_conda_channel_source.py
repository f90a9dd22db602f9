"""A package that a conda channel has is found there, fetched once, and held against its hash."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks import examine, objects
from binary_checks.errors import GatherError, ProfileError
from binary_checks.model import CondaPackage, InstallReport
from binary_checks.sources import Surroundings, cut_check, is_published, parse
from binary_checks.sources.conda_channel import NamedRecord
from binary_checks.sources.remote import RemoteSource
from binary_checks.web.addresses import show
from fixtures.build_conda import build_conda
from fixtures.conda.channel import PYTHON, build_python, change_repodata, host_subdir, index
from fixtures.conda.prefixes import MODULE
from fixtures.package_index import Conduct, PackageIndex, serve_index

pytest.importorskip("rattler", reason="no py-rattler, which asks channels")
pytest.importorskip("urllib3", reason="no urllib3, which asks servers")
pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

TARGET = "cp311-manylinux_2_17_x86_64"
SUBDIR = "linux-64"


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "channel"
    for version, build in (("1.0", "py311h0_0"), ("1.0", "py312h0_0"), ("1.1", "py311h0_0")):
        build_conda(folder / SUBDIR, version=version, build=build, members={"lib/x": version})
    return index(folder)


@pytest.fixture
def server(channel: Path) -> Iterator[PackageIndex]:
    with serve_index() as served:
        served.folders["channel"] = channel
        yield served


def find(argument: str, target: str = TARGET) -> RemoteSource:
    named = parse(argument, Path("/here"))
    assert named is not None
    source = named.resolve(Surroundings(python=Path(sys.executable), target=target))
    assert isinstance(source, RemoteSource)
    return source


@pytest.mark.parametrize(
    ("spec", "target", "name"),
    [
        ("demo==1.0", TARGET, "demo-1.0-py311h0_0.conda"),
        ("demo==1.0", "cp312-manylinux_2_17_x86_64", "demo-1.0-py312h0_0.conda"),
        ("demo", TARGET, "demo-1.1-py311h0_0.conda"),
        ("demo 1.0 py312*", TARGET, "demo-1.0-py312h0_0.conda"),
    ],
)
def test_the_newest_that_fits_is_found_for_the_python_and_the_system(
    channel: Path, spec: str, target: str, name: str
) -> None:
    assert find(f"conda:{channel}::{spec}", target).label == name


def test_it_is_read_and_says_where_it_is_from(server: PackageIndex) -> None:
    source = find(f"conda:{server.url}/channel::demo==1.0")
    package = source.read(objects).package
    assert isinstance(package, CondaPackage)
    assert (package.name, package.version) == ("demo", "1.0")
    said = source.remote().provenance
    assert (said.kind, said.index) == ("channel", f"{server.url}/channel/")
    assert said.sha256 == said.sha256_taken != ""
    assert said.asked == f"conda:{server.url}/channel::demo==1.0"
    with examine(source) as examination:
        assert examination.get(CondaPackage).version == "1.0"


def test_a_file_that_is_another_than_the_channel_states_is_refused(
    server: PackageIndex, channel: Path
) -> None:
    change_repodata(channel, SUBDIR, "demo-1.0-py311h0_0.conda", sha256="0" * 64)
    source = find(f"conda:{server.url}/channel::demo==1.0")
    with pytest.raises(GatherError, match="sha256"):
        source.read(objects)


@pytest.mark.parametrize("spec", ["absent==1", "demo>=9", "demo==="])
def test_what_the_channel_does_not_have_is_one_line(channel: Path, spec: str) -> None:
    with pytest.raises(ProfileError) as caught:
        find(f"conda:{channel}::{spec}")
    assert str(caught.value).startswith(f"conda:{channel}::{spec}: ")


@pytest.mark.parametrize("argument", ["conda:numpy", "conda:::numpy", "conda:x::", "conda:"])
def test_a_channel_and_a_package_must_be_named(argument: str) -> None:
    advice = "name a channel and a package, such as conda:conda-forge::"
    with pytest.raises(ProfileError, match=advice):
        find(argument)
    with pytest.raises(ProfileError, match="no such channel or folder"):
        find("conda:./nothing::demo")


def test_a_channel_that_lists_what_it_lacks_or_cannot_be_read_is_one_line(channel: Path) -> None:
    source = find(f"conda:{channel}::demo==1.0")
    (channel / SUBDIR / "demo-1.0-py311h0_0.conda").unlink()
    said = f"demo-1.0-py311h0_0.conda: the file is missing, although {channel.as_uri()}/ lists it"
    with pytest.raises(GatherError, match=f"^{said}$"):
        source.read(objects)
    (channel / SUBDIR / "repodata.json").write_text("<html>", encoding="utf-8")
    with pytest.raises(GatherError, match=f"^{channel.as_uri()}: failed to parse repodata"):
        find(f"conda:{channel}::demo")


@pytest.mark.slow
@pytest.mark.parametrize("conduct", [Conduct(html=True), Conduct(failures=[503] * 20)])
def test_a_channel_that_breaks_is_tried_again_later(server: PackageIndex, conduct: Conduct) -> None:
    server.conduct[f"/channel/{SUBDIR}/repodata.json"] = conduct
    with pytest.raises(GatherError):
        find(f"conda:{server.url}/channel::demo")


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("conda:ch::x==1", ("conda:ch::x==1", "", "")),
        ("conda:ch::x==1::missing-library", ("conda:ch::x==1", "::", "missing-library")),
        ("conda:ch:x==1::missing-library", ("conda:ch:x==1", "::", "missing-library")),
        ("conda:https://h/c::x==1", ("conda:https://h/c::x==1", "", "")),
        ("conda:https://h/c::x==1::a", ("conda:https://h/c::x==1", "::", "a")),
        ("x.whl::a", ("x.whl", "::", "a")),
    ],
)
def test_a_check_stands_behind_the_name_of_a_package(
    argument: str, expected: tuple[str, str, str]
) -> None:
    assert cut_check(argument) == expected
    assert is_published("conda:conda-forge::numpy==2.4.6", Path("/here"))
    assert not is_published("conda", Path("/here"))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_run_judges_what_a_channel_has(
    pytester: pytest.Pytester, channel: Path, workers: list[str]
) -> None:
    command = (sys.executable, "-m", "binary_checks", "--binary-static", "-v", *workers)
    name = f"conda:{channel}::demo==1.0"
    result = pytester.run(*command, name, "--binary-for", TARGET)
    assert result.ret == pytest.ExitCode.OK
    told = result.stdout.str()
    assert "demo==1.0::unreadable-member" in told
    assert (
        hashlib.sha256((channel / SUBDIR / "demo-1.0-py311h0_0.conda").read_bytes()).hexdigest()
        in told
    )
    alone = pytester.run(*command, f"{name}::unreadable-member", "--binary-for", TARGET)
    alone.assert_outcomes(passed=1)


@pytest.mark.parametrize("secret", ["user:secret@h/c", "h/t/secret/c"])
def test_secrets_in_the_address_of_a_channel_stand_nowhere(tmp_path: Path, secret: str) -> None:
    named = parse(f"conda:https://{secret}::demo==1.0", tmp_path)
    assert isinstance(named, NamedRecord)
    assert "secret" not in named.path.name
    assert "secret" not in show(f"https://{secret}/linux-64/demo-1.0-0.conda")
    with pytest.raises(ProfileError) as caught:
        parse(f"conda:https://{secret}::", tmp_path).resolve(Surroundings(python=Path("python")))
    assert "secret" not in str(caught.value)


def test_what_a_package_of_a_channel_requires_to_run_comes_from_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    folder, here = tmp_path / "channel", host_subdir()
    build_python(folder, subdir=here)
    build_conda(folder / here, members=MODULE, depends=[PYTHON], subdir=here)
    source = find(f"conda:{index(folder)}::demo", target="")
    with examine(source, run=True) as examination:
        assert examination.get(InstallReport).error == ""
        assert examination.facts.unrun == ""
