"""What is published is found by its name, fetched when it is read, and never by a typo."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks import examine, files, objects
from binary_checks.errors import GatherError, ProfileError, Unavailable
from binary_checks.files import take_turns
from binary_checks.model import Package, Wheel
from binary_checks.places import index_settings
from binary_checks.sources import Surroundings, is_published, parse
from binary_checks.sources import remote as download_store
from binary_checks.sources.file import FileSource
from binary_checks.sources.remote import RemoteSource
from binary_checks.sources.requirement import NamedRequirement
from binary_checks.web.client import Client
from fixtures.package_index import Conduct, PackageIndex, serve_only_index
from tests.plugin.conftest import healthy

NAME = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
TARGET = "cp311-manylinux_2_17_x86_64"
HERE = Path("/here")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """The only index of the user's settings, and an empty cache."""
    monkeypatch.setattr(index_settings, "has_pip", lambda: False)  # which takes its time to start
    with serve_only_index(monkeypatch, tmp_path / "cache", retries=1) as index:
        yield index


@pytest.fixture
def wheel(index: PackageIndex, tmp_path: Path) -> Path:
    """What the index has."""
    path = healthy(tmp_path / "dist")
    index.offer(path, "demo")
    return path


def around(**more: object) -> Surroundings:
    return Surroundings(python=Path(sys.executable), target=TARGET, **more)  # type: ignore[arg-type]


def find(argument: str = "demo==1.0", surroundings: Surroundings | None = None) -> RemoteSource:
    named = parse(argument, HERE)
    assert named is not None
    source = named.resolve(surroundings or around())
    assert isinstance(source, RemoteSource)
    return source


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "argument",
    [
        *("demo==1.0", "demo>=1", "demo<2", "demo~=1.0", "demo!=1", "demo===1", "My.Demo[x]==1,<2"),
        *("index:demo", "index:demo==1.0", "https://h/x.whl", "HTTP://h/x.whl", "file:///x.whl"),
    ],
)
def test_what_is_published_is_told_by_its_name(argument: str, tmp_path: Path) -> None:
    assert is_published(argument, tmp_path)


@pytest.mark.parametrize(
    "argument",
    [
        *("torch", "foo.whl", "./demo==1.0", "dist/demo==1.0", "demo==1.0.whl", "demo==1.tar.gz"),
        *("demo==1.0.conda", "a\\demo==1", "there==1.0", "*.whl", "tests", "==1.0", "installed:x"),
    ],
)
def test_a_path_never_becomes_a_download(argument: str, tmp_path: Path) -> None:
    (tmp_path / "there==1.0").touch()
    assert not is_published(argument, tmp_path)


def test_a_requirement_is_what_a_user_would_get(index: PackageIndex, tmp_path: Path) -> None:
    wheel = healthy(tmp_path)
    index.serial = "77"
    index.offer(wheel, "demo", uploaded="2026-11-21T03:12:45Z", provenance=True, metadata=True)
    source = find()
    assert (source.label, source.path) == (NAME, HERE / "demo==1.0")
    assert source.preview(objects).kind is Wheel
    assert not any("/files/" in path for path in index.asked)  # nothing is fetched by that
    provenance = source.remote().provenance
    assert (provenance.kind, provenance.index) == ("index", index.simple)
    assert (provenance.asked, provenance.url) == ("demo==1.0", f"{index.url}/files/{NAME}")
    assert (provenance.sha256, provenance.sha256_taken) == (digest(wheel), "")
    assert (provenance.attestation, provenance.metadata) == ("present, not verified", "PEP 658")
    assert (provenance.serial, provenance.uploaded) == ("77", "2026-11-21T03:12:45Z")
    assert source.read(objects).package.version == "1.0"
    assert source.remote().provenance.sha256_taken == digest(wheel)
    assert source.identity() == f"sha256 {digest(wheel)}"
    with examine("demo==1.0", target=TARGET) as facts:
        assert facts.get(Package).name == "demo"


def test_metadata_beside_the_file_is_read_and_verified(index: PackageIndex, tmp_path: Path) -> None:
    index.offer(healthy(tmp_path), "demo", metadata=True)
    remote = find().remote()
    assert b"Name: demo" in (remote.core_metadata() or b"")
    index.conduct[f"/files/{NAME}.metadata"].body = b"Name: other"
    with pytest.raises(GatherError, match="its sha256 is not the one that the index states"):
        remote.core_metadata()
    del index.conduct[f"/files/{NAME}.metadata"]
    with pytest.raises(GatherError, match=r"not there .*, but the index says that it is"):
        remote.core_metadata()


@pytest.mark.usefixtures("wheel")
def test_the_files_beside_it_are_known(index: PackageIndex, tmp_path: Path) -> None:
    index.offer(healthy(tmp_path, version="1.0", tags=("cp312-cp312-win_amd64",)), "demo")
    index.offer(healthy(tmp_path, version="2.0"), "demo")
    assert find().remote().siblings() == (NAME, "demo-1.0-cp312-cp312-win_amd64.whl")


def test_a_file_is_fetched_once_unless_somebody_wrote_to_it(
    index: PackageIndex, wheel: Path
) -> None:
    for _ in range(2):
        source = find()
        source.read(objects)
        source.identity()
    assert index.asked.count(f"/files/{NAME}") == 1
    source.fetch().path.write_bytes(b"something else")
    assert find().fetch().path.read_bytes() == wheel.read_bytes()


def test_other_bytes_than_the_index_says_are_nobodys_package(
    index: PackageIndex, tmp_path: Path
) -> None:
    wheel = healthy(tmp_path)
    index.offer(wheel, "demo", sha256="0" * 64)
    with pytest.raises(GatherError) as caught:
        find().read(objects)
    assert str(caught.value) == (
        f"{NAME}: {index.simple} says sha256 {'0' * 64}, and its server sent {digest(wheel)}"
    )
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.suffix == ".whl"]


def test_a_download_that_was_cut_goes_on(index: PackageIndex, wheel: Path) -> None:
    index.conduct[f"/files/{NAME}"] = Conduct(cut_after=200, cuts=3)
    before = index.sent
    with pytest.raises(GatherError, match=f"{NAME}: the connection was cut"):
        find().fetch()
    assert find().fetch().path.read_bytes() == wheel.read_bytes()
    pages = sum("/simple/" in path for path in index.asked)
    assert index.sent - before < wheel.stat().st_size + pages * 1000


@pytest.mark.usefixtures("wheel")
def test_threads_and_processes_share_a_download(index: PackageIndex) -> None:
    index.conduct[f"/files/{NAME}"] = Conduct(pause=0.05)
    threads = [threading.Thread(target=find().fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index.asked.count(f"/files/{NAME}") == 1


@pytest.mark.usefixtures("wheel")
def test_what_was_used_last_is_kept(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.offer(healthy(tmp_path / "dist", version="2.0"), "demo")
    monkeypatch.setattr(files, "IN_USE", 0.0)
    first = find().fetch().path
    monkeypatch.setattr(download_store, "_MOST", first.stat().st_size * 3 // 2)
    find("demo==2.0").fetch()
    assert not first.exists()


@pytest.mark.usefixtures("wheel")
def test_a_url_is_a_package_of_its_own(index: PackageIndex) -> None:
    address = f"{index.url}/files/{NAME}"
    source = find(address.replace("//", "//me:secret@", 1) + "?signature=x")
    assert source.label == NAME
    provenance = source.remote().provenance
    assert (provenance.kind, provenance.url, provenance.index) == ("url", address, "")
    assert "secret" not in f"{source.path} {provenance}"
    assert isinstance(source.read(objects).package, Wheel)


def test_a_url_may_say_its_hash(index: PackageIndex, wheel: Path) -> None:
    address, own = f"{index.url}/files/{NAME}", digest(wheel)
    assert find(f"{address}#sha256={own}").fetch().sha256 == own
    with pytest.raises(GatherError, match=f"says sha256 {'0' * 64}, and its server sent {own}"):
        find(f"{address}#sha256={'0' * 64}").fetch()


@pytest.mark.usefixtures("wheel")
def test_the_file_of_a_url_is_asked_for_anew_when_it_changed(
    index: PackageIndex, tmp_path: Path
) -> None:
    first = find(f"{index.url}/files/{NAME}").fetch()
    index.files[NAME] = other = healthy(tmp_path / "new", requires=("numpy",))
    second = find(f"{index.url}/files/{NAME}").fetch()
    assert (first.sha256 == second.sha256, second.size) == (False, other.stat().st_size)


def test_a_file_url_is_read_where_it_lies(index: PackageIndex, wheel: Path) -> None:
    source = find(wheel.as_uri())
    assert source.fetch().path == wheel
    assert isinstance(source.read(objects).package, Wheel)
    assert index.asked == []


def test_a_place_of_links_is_one_of_indexes(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    source = find()
    assert source.fetch().path == wheel
    assert source.remote().provenance.index == wheel.parent.as_uri()


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("demo==9", "demo==9: no such version; the available ones are 1.0 (asked: {index})"),
        ("absent==1", "absent==1: no such project (asked: {index})"),
        ("demo==1 ; python_version<'3'", "a marker has no effect here: remove it"),
        ("index:demo @ https://h/x.whl", "give only the URL, without the name"),
        ("index:", "a name must follow index:, as in index:numpy"),
        ("demo==one", "demo==one: not a requirement such as numpy==2.4.6"),
        ("{url}/files/gone.whl", "{url}/files/gone.whl: not there (answers 404)"),
        ("{url}/", "{url}/: names no file"),
        ("ftp://h/x.whl", "ftp://h/x.whl: only https, http and file URLs are followed"),
        ("http://h:x/x.whl", "http://h:x/x.whl: not a URL"),
    ],
)
@pytest.mark.usefixtures("wheel")
def test_what_is_not_there_is_the_users_mistake(
    index: PackageIndex, argument: str, said: str
) -> None:
    names = {"url": index.url, "index": index.simple}
    with pytest.raises(ProfileError) as caught:
        find(argument.format(**names))
    assert said.format(**names) in str(caught.value)


@pytest.mark.usefixtures("wheel")
def test_what_broke_is_not(index: PackageIndex) -> None:
    index.conduct["/simple/demo/"] = Conduct(failures=[503] * 9)
    with pytest.raises(GatherError, match=r"/simple/demo/: answers 503 \(asked 2 times\)"):
        find()
    index.conduct["/simple/demo/"] = Conduct(html=True)
    with pytest.raises(GatherError, match="a web page"):
        find()


@pytest.mark.usefixtures("wheel")
def test_other_processes_take_over_what_was_found_and_failures_too(
    index: PackageIndex, tmp_path: Path
) -> None:
    first = around()
    found = find(surroundings=first).found
    index.offer(healthy(tmp_path / "b", build="2"), "demo")
    index.asked.clear()
    other = around(shared_results=first.shared_results)
    assert find(surroundings=other).found == found
    assert index.asked == []
    for _ in range(2):
        with pytest.raises(ProfileError, match="no such project"):
            find("absent==1", first)
    assert len(index.asked) == 1


def test_ranges_are_read_of_what_is_not_fetched(index: PackageIndex, wheel: Path) -> None:
    remote = find().remote()
    file = remote.open()
    assert (file.size, file.read(0, 2)) == (wheel.stat().st_size, b"PK")
    index.conduct[f"/files/{NAME}"].ranges = False
    with pytest.raises(Unavailable, match="the server does not support range requests"):
        remote.open()


def test_a_local_run_imports_nothing_of_the_web() -> None:
    code = (
        "import sys; from pathlib import Path; from binary_checks import sources;"
        f"[sources.parse(each, Path('/nowhere')) for each in ({NAME!r}, 'torch')];"
        "wrong = {'urllib3', 'ssl', 'http.client', 'binary_checks.web', 'binary_checks.places'};"
        "sys.exit(' '.join(wrong & set(sys.modules)) or 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_names_of_requirements_need_no_folder() -> None:
    assert NamedRequirement(text="demo[x] == 1.0", folder=Path("/f")).path == Path("/f/demo==1.0")
    assert NamedRequirement(text="demo", folder=Path("/f")).path == Path("/f/index:demo")
    assert not isinstance(parse("demo-1.0.whl", Path("/f")), NamedRequirement)
    assert isinstance(parse(NAME, Path("/f")), FileSource)


def test_each_hash_that_an_index_states_counts(wheel: Path) -> None:
    """A hostile index would else put its own bytes where those of another one are looked for."""
    wanted = download_store.Found(
        url=wheel.as_uri(),
        file_name=NAME,
        key="0" * 64,
        hashes={"sha256": "0" * 64, "sha512": hashlib.sha512(wheel.read_bytes()).hexdigest()},
    )
    with pytest.raises(GatherError, match=f"says sha256 {'0' * 64}, and its server sent "):
        download_store.fetch(Client(), wanted)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_what_is_kept_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        with take_turns(tmp_path / "cache" / "downloads" / "lock", 1):
            pass
    finally:
        os.umask(before)
    folders = [tmp_path / "cache", tmp_path / "cache" / "downloads"]
    assert [each.stat().st_mode & 0o777 for each in folders] == [0o700, 0o700]


@pytest.mark.parametrize(
    "name", ["../../x.conda", "/x.conda", "a\\b.conda", "..", "part", "taken.json"]
)
def test_a_file_is_kept_under_a_name_of_its_own(wheel: Path, tmp_path: Path, name: str) -> None:
    wanted = download_store.Found(url=wheel.as_uri(), file_name=name, key="0" * 64, hashes={})
    with pytest.raises(GatherError, match="not the name of a package file"):
        download_store.fetch(Client(), wanted)
    assert not list((tmp_path / "cache").rglob("*.json"))
