"""A conda package runs in a fresh prefix with what it requires, or it is said whose fault it is."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import GatherError, NotApplicable, Unavailable
from binary_checks.model import CondaPackage, EmbeddedTestReport, Ending, InstallReport
from binary_checks.places import PlaceSettings, choose_place
from binary_checks.probes.conda_tests import run_embedded_tests
from binary_checks.probes.import_name.reader import import_each
from binary_checks.sources.file import FileSource
from fixtures.build_conda import TarMember, build_conda
from fixtures.environments import demand_sandbox, list_sandbox_modes
from fixtures.package_index import Conduct, PackageIndex, serve_index
from fixtures.slow import slow

pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")
if sys.platform != "linux":
    pytest.skip("the stub of Python is a link of Linux", allow_module_level=True)

from fixtures.conda.channel import (
    PYTHON,
    SITE,
    build_python,
    host_subdir,
    index,
)
from fixtures.conda.prefixes import MODULE, build, build_channel, install, open_place


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_channel(tmp_path_factory.mktemp("channel"))


@pytest.mark.parametrize("mode", list_sandbox_modes())
def test_a_package_is_imported_by_the_python_of_its_own_prefix(
    tmp_path: Path, channel: Path, mode: str
) -> None:
    package = build(tmp_path)
    with open_place(package, channel, sandbox=demand_sandbox(mode)) as place:
        report = place.install(package)
        (step,) = import_each(place, ("demo",)).steps
        prefix = place.prefix
        assert place.target.prefix == str(prefix)
    assert report is not None
    assert (report.error, report.altered, report.missing) == ("", (), ())
    assert report.installer.startswith("py-rattler ")
    assert (step.outcome, step.origin) == (Ending.OK, "demo/__init__.py")
    assert not prefix.parent.exists()


@pytest.mark.slow
def test_no_script_of_a_package_runs(tmp_path: Path, channel: Path) -> None:
    trace = tmp_path / "trace"
    scripts = {f"bin/.demo-{when}.sh": f"touch {trace}\n" for when in ("post-link", "pre-link")}
    report = install(build(tmp_path, members={**MODULE, **scripts}), channel)
    assert report.error == ""
    assert not trace.exists()


@pytest.mark.slow
def test_pth_files_run_in_the_sandbox_alone(tmp_path: Path, channel: Path) -> None:
    trace = tmp_path / "trace"
    code = f"import pathlib; pathlib.Path({str(trace)!r}).touch()\n"
    package = build(tmp_path, members={**MODULE, f"{SITE}/demo.pth": code})
    with open_place(package, channel, sandbox=demand_sandbox("auto")) as place:
        place.install(package)
        import_each(place, ("demo",))
    assert not trace.exists()


@pytest.mark.slow
def test_a_package_for_every_python_lies_where_this_one_looks(
    tmp_path: Path, channel: Path
) -> None:
    link = {"noarch": {"type": "python", "entry_points": ["demo = demo:main"]}}
    link["package_metadata_version"] = 1  # type: ignore[assignment]
    package = build(
        tmp_path,
        subdir="noarch",
        build="pyh0_0",
        members={"site-packages/demo/__init__.py": "", "python-scripts/run": "#!python\n"},
        depends=["python"],
        index_changes={"noarch": "python"},
        info_members=[TarMember("info/link.json", json.dumps(link).encode())],
    )
    with open_place(package, channel) as place:
        report = place.install(package)
        (step,) = import_each(place, ("demo",)).steps
        assert (place.prefix / "bin/demo").is_file()
    assert report is not None
    assert (report.missing, step.outcome) == ((), Ending.OK)


def test_a_placeholder_is_replaced_and_no_difference(tmp_path: Path, channel: Path) -> None:
    long = "/opt/" + "placehold_" * 24
    package = build(
        tmp_path,
        members={**MODULE, "bin/run": f"#!{long}/bin/python\n"},
        placeholders={"bin/run": ("text", long)},
    )
    with open_place(package, channel) as place:
        report = place.install(package)
        assert (place.prefix / "bin/run").read_text() == f"#!{place.prefix}/bin/python\n"
    assert report is not None
    assert report.altered == ()


@pytest.mark.slow
def test_a_placeholder_too_short_for_a_prefix_is_the_packages_fault(
    tmp_path: Path, channel: Path
) -> None:
    package = build(
        tmp_path,
        members={**MODULE, "lib/x.bin": b"\0/opt/short/lib\0"},
        placeholders={"lib/x.bin": ("binary", "/opt/short")},
    )
    report = install(package, channel)
    assert "longer than the placeholder prefix" in report.error
    assert str(tmp_path) not in report.error


@pytest.mark.slow
def test_a_file_that_another_package_has_too_is_a_difference(tmp_path: Path, channel: Path) -> None:
    other = build_conda(
        tmp_path / "beside",
        name="other",
        subdir=host_subdir(),
        members={f"{SITE}/demo/__init__.py": "value = 2\n"},
        depends=[],
    )
    report = install(build(tmp_path, depends=[PYTHON, "other"]), channel, given=(other,))
    assert (*report.altered, *report.missing) == (f"{SITE}/demo/__init__.py",)


def test_without_a_channel_it_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"python.*name a channel with --binary-channel"):
        install(build(tmp_path))


@pytest.mark.slow
def test_what_it_requires_may_be_given_as_a_folder_of_packages(tmp_path: Path) -> None:
    python = build_python(tmp_path / "given", subdir=host_subdir())
    assert install(build(tmp_path), given=(python.parent,)).error == ""


def test_a_requirement_that_no_channel_has_is_the_packages_fault(
    tmp_path: Path, channel: Path
) -> None:
    report = install(build(tmp_path, depends=[PYTHON, "absent >=2"]), channel)
    assert "absent >=2" in report.error
    assert "\n" not in report.error


@pytest.mark.slow
def test_a_virtual_package_may_be_stated(
    tmp_path: Path, channel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "99.1")
    assert install(build(tmp_path, depends=[PYTHON, "__cuda >=99"]), channel).error == ""


@pytest.mark.slow
def test_where_there_is_no_python_nothing_is_imported(tmp_path: Path, channel: Path) -> None:
    package = build(tmp_path, members={"lib/x.txt": "x"}, depends=["other"])
    with open_place(package, channel) as place:
        report = place.install(package)
        with pytest.raises(NotApplicable, match="nor its requirements include Python"):
            _ = place.target
    assert report is not None
    assert report.error == ""


OUTSIDE = {"../../../out": {"sha256": "0" * 64}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"path_changes": OUTSIDE}, r"a damaged package is not installed: \.\./"),
        *slow(
            ({"subdir": "win-64"}, f"it is for win-64, but this host is {host_subdir()}"),
            ({"depends": [PYTHON, "__cuda >=99"]}, "this host does not have __cuda >=99"),
            ({"depends": [PYTHON, "__glibc >=9.9"]}, "this host does not have __glibc >=9.9"),
        ),
    ],
)
def test_what_this_host_cannot_install_is_not_installed(
    tmp_path: Path, channel: Path, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(Unavailable, match=said):
        install(build(tmp_path, **fields), channel)


@pytest.mark.slow
def test_a_dependency_that_leaves_the_prefix_is_not_linked(tmp_path: Path, channel: Path) -> None:
    out = tmp_path / "victim"
    out.write_text("placeholder here", encoding="utf-8")
    escape = "../" * 40 + str(out).lstrip("/")
    row = {
        "sha256": hashlib.sha256(b"").hexdigest(),
        "file_mode": "text",
        "prefix_placeholder": "placeholder",
    }
    evil = build_conda(
        tmp_path / "given",
        name="evil",
        subdir=host_subdir(),
        depends=[],
        path_changes={escape: row},
    )
    with pytest.raises(GatherError, match="leaves the prefix"):
        install(build(tmp_path, depends=[PYTHON, "evil"]), channel, given=(evil,))
    assert out.read_text(encoding="utf-8") == "placeholder here"


@pytest.mark.slow
def test_a_package_of_a_prefix_is_judged_and_run_there(
    tmp_path: Path, channel: Path, pytester: pytest.Pytester
) -> None:
    package = build(tmp_path)
    with open_place(package, channel) as place:
        place.install(package)
        python = place.prefix / "bin/python"
        options = ("-m", "pytest", "-p", "no:cacheprovider", "--binary-python", str(python))
        result = pytester.run(sys.executable, *options, "installed:demo", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["installed:demo::import-fails PASSED*"])
    result.stdout.fnmatch_lines(["installed:demo::unreadable-member PASSED*"])


def carry(folder: Path, **files: str) -> CondaPackage:
    names = {"py": "run_test.py", "sh": "run_test.sh", "needs": "test_time_dependencies.json"}
    members = [TarMember(f"info/test/{names[key]}", text.encode()) for key, text in files.items()]
    return build(folder, info_members=members)


def run_tests(package: CondaPackage, channel: Path) -> EmbeddedTestReport:
    source = FileSource(path=package.path)
    with open_place(package, channel, sandbox=demand_sandbox("auto")) as place:
        return run_embedded_tests(place, package, source)


@pytest.mark.slow
def test_the_tests_that_a_package_carries_run_beside_it(tmp_path: Path, channel: Path) -> None:
    shell = "python -c 'import demo'\nfalse\n"
    report = run_tests(carry(tmp_path, py="import demo\nassert demo.value", sh=shell), channel)
    python, commands = (run.step for run in report.runs)
    assert (python.name, python.outcome) == ("run_test.py", Ending.OK)
    assert (commands.name, commands.outcome) == ("run_test.sh", Ending.RAISED)
    assert report.untried == ()


@pytest.mark.slow
def test_what_tests_require_is_installed_for_them_or_they_are_not_run(
    tmp_path: Path, channel: Path
) -> None:
    check = "import glob, sys\nassert glob.glob(sys.prefix + '/conda-meta/other-*.json')\n"
    report = run_tests(carry(tmp_path, py=check, needs='["other"]'), channel)
    assert [run.step.outcome for run in report.runs] == [Ending.OK]
    report = run_tests(carry(tmp_path, py=check, needs='["absent"]'), channel)
    ((name, reason),) = report.untried
    assert (name, "absent" in reason) == ("run_test.py", True)


def test_a_package_that_carries_no_test_is_not_installed_for_them(tmp_path: Path) -> None:
    package = build(tmp_path)
    with pytest.raises(NotApplicable, match="contains no tests"):
        run_tests(package, tmp_path)


# A channel that is down, lies, or sends garbage breaks the run: it is not the package's fault.


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
