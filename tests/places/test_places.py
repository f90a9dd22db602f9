"""A place is one class and one line: whatever runs in it is asked through it, by no host path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from binary_checks import places
from binary_checks.errors import GatherError, NotApplicable, Unavailable
from binary_checks.examination.facts import Facts
from binary_checks.gather.companions import Companions
from binary_checks.model import (
    Code,
    CudaReport,
    CudaRequest,
    Ending,
    ExtensionReport,
    GpuReport,
    GpuRequest,
    ImportReport,
    ImportRequest,
    InstallReport,
    Package,
    Place,
    ProbeAnswer,
    Request,
    SnippetReport,
    SnippetRequest,
    TargetPython,
    Wheel,
)
from binary_checks.places import HostPlace, PlaceSettings
from binary_checks.probes.ask_module.reader import ask_without_gpu
from binary_checks.probes.import_name.reader import import_names
from binary_checks.probes.load_extensions.reader import load_extensions
from binary_checks.profile import Profile
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, running
from fixtures.values import wheel

SITE = PurePosixPath("/image/site-packages")
LOADED = ["/image/site-packages/demo/x.so"]
ANSWERS = {
    "import_name": {
        "state": "imported", "origin": f"{SITE}/demo.py", "version": "1.0", "libraries": LOADED,
    },
    "run_snippet": {"state": "ran", "printed": "1"},
    "gpu_host": {"stage": "", "library": "/image/libcuda.so.1", "status": 100},
    "ask_module": {"state": "finished", "stage": "", "answers": []},
    "nvidia_libraries": {"state": "finished", "stage": "", "versions": {}},
}  # fmt: skip


class Image:
    """A place none of whose files is on this host."""

    serves = (Wheel,)
    spelled = ("venv",)
    preinstalled = ()

    def __init__(self, settings: PlaceSettings) -> None:
        self.timeout = settings.timeout
        self.asked: list[str] = []
        paths = {"platlib": str(SITE)}
        self.target = TargetPython(
            executable=Path("/image/python"), version="3.11.7", platform="linux-x86_64",
            architecture="x86_64", extension_suffixes=(".so",), paths=paths,
        )  # fmt: skip

    def install(self, package: Package) -> InstallReport:
        self.asked.append(f"install {package.file_name}")
        return InstallReport(python=self.target.name, installer="image 1")

    def require_installed(self, package: Package) -> None:
        self.install(package)

    def with_requirements(self, requires: tuple[str, ...]) -> Image:
        raise AssertionError(requires)

    def run(self, script: str, request: Mapping[str, object], **_: Any) -> ProbeAnswer:
        self.asked.append(script)
        return ProbeAnswer(answer=ANSWERS[script])

    def driver_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        assert "PATH" in environ
        return {"LD_LIBRARY_PATH": "/image/driver"}

    def digest(self, path: str) -> str:
        return f"digest of {path}"

    def scrub(self, text: str) -> str:
        return text.replace(f"{SITE}/", "")

    shown = scrub

    def close(self) -> None:
        self.asked.append("closed")

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Facts:
    monkeypatch.setattr(places, "PLACES", (Image, *places.PLACES))
    path = build_wheel(tmp_path, tags=PURE, members={"demo.py": ""})
    profile = Profile(
        requests={
            SnippetRequest: SnippetRequest(code={"one": Code("print(1)")}),
            CudaRequest: CudaRequest(module=Code("demo")),
        }
    )
    return Facts(FileSource(path=path), running(profile=profile), Companions(()))


def test_its_answers_become_the_facts(facts: Facts) -> None:
    (step,) = facts.get(ImportReport).steps
    assert (step.outcome, step.origin, step.libraries) == (Ending.OK, "demo.py", ("demo/x.so",))
    assert step.origin_sha256 == f"digest of {SITE}/demo.py"
    (snippet,) = facts.get(SnippetReport).runs
    assert (snippet.printed, facts.get(SnippetReport).system) == ("1", "linux-x86_64")
    assert facts.get(CudaReport).host.library == "/image/libcuda.so.1"
    assert facts.get(InstallReport).installer == "image 1"
    with pytest.raises(NotApplicable, match="no extension module"):
        facts.get(ExtensionReport)


def test_it_is_made_once_and_closed_with_the_facts(facts: Facts) -> None:
    facts.get(ImportReport)
    facts.get(SnippetReport)
    image: Any = facts.get(Place)  # type: ignore[type-abstract]
    facts.close()
    assert image.asked[-1] == "closed"
    assert image.asked.count("import_name") == image.asked.count("run_snippet") == 1


@pytest.mark.parametrize(
    ("request_", "report", "said", "asked"),
    [
        (CudaRequest(), CudaReport, "names no module", []),
        (GpuRequest(), GpuReport, "requests no work on a GPU", []),
        (GpuRequest(module=Code("demo")), GpuReport, "finds no GPU", ["gpu_host"]),
    ],
)
def test_nothing_is_installed_for_nothing(
    facts: Facts, request_: Request, report: type, said: str, asked: list[str]
) -> None:
    profile = Profile(requests={type(request_): request_})
    settings = replace(facts.settings, profile=profile)
    facts = Facts(FileSource(path=facts.path), settings, Companions(()))
    with pytest.raises((NotApplicable, Unavailable), match=said):
        facts.get(report)
    image: Any = facts.get(Place)  # type: ignore[type-abstract]
    assert image.asked == asked


def test_a_kind_that_nothing_installs_is_not_inspected_where_it_would_run() -> None:
    package = Package(path=Path("libtorch.zip"), name="libtorch")
    place = places.choose_place(package, PlaceSettings(python=PYTHON, timeout=1))
    only_inspected = "a package is only inspected: nothing installs"
    with pytest.raises(Unavailable, match=only_inspected):
        import_names(place, package, ImportRequest())
    with pytest.raises(Unavailable, match=only_inspected):
        load_extensions(place, package, ImportRequest())
    with pytest.raises(NotApplicable, match="names no module"):  # nobody wants it to run
        ask_without_gpu(place, package, CudaRequest())


class Failing(HostPlace):
    tries = 0

    def _install(self, package: Package) -> InstallReport:
        self.tries += 1
        if self.tries > 1:
            return InstallReport(python="")
        assert self.folder.is_dir()
        raise GatherError("no network")


def test_an_installation_that_broke_is_not_tried_again_and_leaves_nothing() -> None:
    place = Failing(PlaceSettings(python=PYTHON, timeout=1))
    for _ in range(2):
        with pytest.raises(GatherError, match="no network"):
            place.install(wheel())
    assert place.tries == 1
    assert place._folder is None


class Refusing(HostPlace):
    def _install(self, package: Package) -> InstallReport:
        return InstallReport(python="", error="no such tag")


def test_what_was_refused_has_a_report_and_cannot_be_run() -> None:
    place = Refusing(PlaceSettings(python=PYTHON, timeout=1))
    assert place.install(wheel()) == InstallReport(python="", error="no such tag")
    with pytest.raises(Unavailable, match="it could not be installed: no such tag"):
        place.require_installed(wheel())
