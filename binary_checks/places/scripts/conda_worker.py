"""Query channels, solve and link with py-rattler, in a separate process.

A damaged package may make py-rattler end the process (by a panic in one of its threads), and its
tasks cannot be interrupted; a separate process is stopped at the time limit like any other program.
py-rattler links the files that ``paths.json`` lists without checking that they stay inside the
prefix, so every package is checked before anything is linked. Scripts of packages (post-link,
pre-link) never run.

Executed by its path with two JSON files: REQUEST ANSWER. The request's ``task`` is ``find``
(packages in channels), ``collect`` (download a package's requirements) or ``install`` (install a
package file into a prefix).
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import os
import re
import sys
from pathlib import Path, PurePosixPath

TYPE_CHECKING = False  # scripts do not import typing
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

SUFFIXES = (".conda", ".tar.bz2")
RETRIES = 3
BLOCK, FEW = 1 << 20, 5  # bytes hashed at a time; builds that a message lists
SECRET = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=/t/)[^/\s)']+")
"""A password, or conda's token, in a URL."""


class Refused(Exception):
    """A failure that the package itself has caused."""


class Unsolved(Exception):
    """No set of packages satisfies the requirements."""


class Broke(Exception):
    """A failure that a channel, or a package from a channel, has caused."""


class GivenChannel:
    """The given packages, with the methods that py-rattler calls on a channel."""

    def __init__(self, records: Iterable[Any]) -> None:
        self._records = tuple(records)

    async def fetch_package_records(self, platform: Any, name: Any) -> list[Any]:
        """Return the records of all given packages with that name and platform."""
        return [
            record
            for record in self._records
            if record.subdir == str(platform) and record.name.normalized == name.normalized
        ]

    def package_names(self, platform: Any) -> list[str]:
        """Return the names of all given packages for the platform."""
        return [each.name.source for each in self._records if each.subdir == str(platform)]


async def install(request: dict[str, Any]) -> dict[str, Any]:
    """Solve for the package, and link it with its requirements into the prefix."""
    import rattler
    from rattler import exceptions

    own, others = await read_given(request)
    own_name = own.name.normalized
    if own.subdir not in (request["platform"], "noarch"):
        raise Unsolved("it is for %s, but this host is %s" % (own.subdir, request["platform"]))
    # environment variables override the virtual packages of this host
    overrides = rattler.VirtualPackageOverrides.from_env()
    virtual = [each.into_generic() for each in rattler.VirtualPackage.detect(overrides)]
    records = await solve(request, own, others, request["requires"], virtual)
    folder = Path(request["cache"], "fetched")
    described = [describe(record) for record in records]
    for record in records:
        path = await fetch(record, folder)
        refuse_escapes(record, path, Refused if record.name.normalized == own_name else Broke)
        record.url = path.as_uri()
    try:
        await rattler.install(
            records,
            request["prefix"],
            cache_dir=Path(request["cache"], "packages"),
            execute_link_scripts=False,
            show_progress=False,
        )
    except exceptions.InstallerError as error:
        message = one_line(error)
        blame = Refused if own.file_name in message else Broke
        raise blame(message) from None
    return {"records": described}


async def collect(request: dict[str, Any]) -> dict[str, Any]:
    """Download the package's requirements for its own platform; link nothing."""
    from rattler import BuildString, GenericVirtualPackage, PackageName, Version

    own, others = await read_given(request)
    request["platform"] = request["platform"] if own.subdir == "noarch" else own.subdir
    virtual = [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString("0"))
        for name, version in request["virtual"].items()
    ]
    records = await solve(request, own, others, [], virtual)
    folder = Path(request["folder"])
    found = [each for each in records if each.name.normalized != own.name.normalized]
    return {"records": [{**describe(r), "path": str(await fetch(r, folder))} for r in found]}


async def read_given(request: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Return the record of the package, and the records of the packages given with it."""
    own = await read_record(request["package"], Refused)
    paths = [path for given in request["given"] for path in list_packages(Path(given))]
    others = [await read_record(path, Broke) for path in paths]
    return own, [each for each in others if each.name.normalized != own.name.normalized]


async def find(request: dict[str, Any]) -> dict[str, Any]:
    """Find the newest package for each specification and Python, or say why there is none."""
    import rattler

    gateway = rattler.Gateway(cache_dir=Path(request["cache"], "repodata"), client=make_client())
    answers = []
    for wanted in request["wanted"]:
        platform = wanted["subdir"] or request["platform"]
        try:
            found = await query(gateway, request, wanted["spec"], platform)
            fitting = [each for each in found if fits_python(each, wanted["python"])]
            if not fitting and wanted["strict"]:
                raise Unsolved(explain_builds(found, wanted, platform))
            newest = max(fitting or found, key=age)
            stated = {
                "file_name": newest.file_name,
                "md5": (newest.md5 or b"").hex(),
                "size": newest.size,
                "timestamp": newest.timestamp.isoformat() if newest.timestamp else "",
            }
            answers.append({**describe(newest), **stated})
        except Unsolved as error:
            answers.append({"unsolved": str(error)})
    return {"records": answers}


def explain_builds(found: list[Any], wanted: dict[str, Any], platform: str) -> str:
    """Describe the builds that exist; none of them is for the requested Python."""
    newest = max(found, key=age).version
    builds = sorted({str(each.build) for each in found if each.version == newest})
    parts = wanted["spec"], wanted["python"], platform, newest, ", ".join(builds[:FEW])
    return "no build of %s for Python %s on %s; %s has %s" % parts


async def query(gateway: Any, request: dict[str, Any], text: str, platform: str) -> list[Any]:
    """Return all records in the channels that match a specification for that platform."""
    import rattler
    from rattler import exceptions

    try:
        spec = rattler.MatchSpec(text)
    except exceptions.InvalidMatchSpecError as error:
        raise Unsolved("%s: %s" % (text, one_line(error))) from None
    try:
        answers = await gateway.query(
            open_channels(request), [platform, "noarch"], [spec], recursive=False
        )
    except (OSError, exceptions.GatewayError) as error:
        raise Broke(one_line(error)) from None
    found = [record for records in answers for record in records if spec.matches(record)]
    if not found:
        raise Unsolved("no package in the channels matches %s for %s" % (text, platform))
    return found


def fits_python(record: Any, python: str) -> bool:
    """Return whether a build is for that Python, or for no particular Python.

    "3.13t" is free-threaded; "" accepts any build.
    """
    free = any(re.search(r"_cp3\d+t\b", depend) for depend in record.depends)
    match = re.search(r"(?:^|_)(?:py|cp)3(\d{1,2})(?=[_ht]|$)", str(record.build))
    if not python or match is None:
        return True
    return "3." + match[1] == python.rstrip("t") and free is python.endswith("t")


def age(record: Any) -> tuple[Any, ...]:
    """Return a sort key that puts newer packages last, as solvers do."""
    stamp = record.timestamp
    return record.version, record.build_number, stamp.timestamp() if stamp else 0.0


async def read_record(path: str | Path, blame: type[Exception]) -> Any:
    """Return the record of a package file, in the form of a channel's record."""
    import rattler

    try:
        return await rattler.RepoDataRecord.from_package_archive(path)
    except Exception as error:  # the file is the cause, whatever the error's class
        raise blame("%s: %s" % (Path(path).name, one_line(error))) from None


def list_packages(given: Path) -> Iterator[Path]:
    """Yield a package file, or all package files in a folder."""
    if given.is_dir():
        yield from (path for path in sorted(given.iterdir()) if path.name.endswith(SUFFIXES))
    elif given.name.endswith(SUFFIXES):
        yield given


async def solve(
    request: dict[str, Any], own: Any, others: list[Any], more: list[str], virtual: list[Any]
) -> list[Any]:
    """Choose the packages; a given package takes precedence over the same package in a channel."""
    import rattler
    from rattler import exceptions

    gateway = rattler.Gateway(cache_dir=Path(request["cache"], "repodata"), client=make_client())
    try:
        found: list[Any] = await rattler.solve(
            [GivenChannel([own, *others]), *open_channels(request)],
            ["%s ==%s %s" % (own.name.source, own.version, own.build), *more],
            gateway=gateway,
            platforms=[request["platform"], "noarch"],
            virtual_packages=virtual,
            timeout=datetime.timedelta(seconds=request["timeout"]),
        )
    except exceptions.SolverError as error:
        raise Unsolved(one_line(error)) from None
    except (OSError, exceptions.GatewayError) as error:
        raise Broke(one_line(error)) from None
    except Exception as error:  # a requirement that no solver can parse raises various exceptions
        raise Refused(one_line(error)) from None
    return found


def open_channels(request: dict[str, Any]) -> list[Any]:
    """Return the channels for their names, URLs or folders."""
    import rattler

    found = []
    for name in request["channels"]:
        try:
            found.append(rattler.Channel(name))
        except Exception as error:  # exceptions of various classes
            raise Broke(
                "%s: not a channel: %s" % (SECRET.sub("***", name), one_line(error))
            ) from None
    return found


def make_client() -> Any:
    """Return a client with the user's credentials and some retries for transient faults."""
    import rattler

    return rattler.Client.default_client(max_retries=RETRIES)


async def fetch(record: Any, folder: Path) -> Path:
    """Return the path of a package; download the package if it is not a local file.

    Raises Broke if the file's hash is not the one that the channel states.
    """
    if record.url.startswith("file:"):
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        path = Path(url2pathname(urlsplit(record.url).path))
    else:
        path = await download(record, folder)
    compare(record, path)
    return path


async def download(record: Any, folder: Path) -> Path:
    """Download the package, unless a file with its hash exists."""
    from rattler import package_streaming

    stated = (record.sha256 or record.md5 or b"").hex()
    kept = folder / (stated or hashlib.sha256(record.url.encode()).hexdigest())
    path = kept / re.sub(r"[^\w.+!-]", "_", record.file_name)
    if path.is_file():
        return path
    kept.mkdir(parents=True, exist_ok=True)
    partial = kept / ("%d.part" % os.getpid())
    try:
        await package_streaming.download_to_path(make_client(), record.url, partial)
    except Exception as error:  # a fault of the network, the disk or the server
        raise Broke("%s: %s" % (record.file_name, one_line(error))) from None
    os.replace(partial, path)
    return path


def compare(record: Any, path: Path) -> None:
    """Raise Broke if the file's hash is not the one that the channel states."""
    for name in ("sha256", "md5"):
        stated = getattr(record, name)
        if stated:
            found = hash_file(path, name)
            if found != stated.hex():
                path.unlink() if path.parent.name == stated.hex() else None
                raise Broke(
                    "%s: the channel states %s %s, the file has %s"
                    % (record.file_name, name, stated.hex(), found)
                )
            return


def hash_file(path: Path, name: str) -> str:
    """Return a file's digest in hexadecimal."""
    digest = hashlib.new(name)
    try:
        with path.open("rb") as file:
            for block in iter(lambda: file.read(BLOCK), b""):
                digest.update(block)
    except OSError as error:
        raise Broke("%s: cannot be read: %s" % (path.name, error.strerror)) from None
    return digest.hexdigest()


def refuse_escapes(record: Any, path: Path, blame: type[Exception]) -> None:
    """Raise for a package with files that would be linked outside of the prefix."""
    import rattler

    try:
        listed = rattler.PathsJson.from_package_archive(path).paths
        names = [each.relative_path for each in listed]
    except Exception as error:  # the file is the cause, whatever the error's class
        raise blame("%s: %s" % (record.file_name, one_line(error))) from None
    for name in (*names, record.python_site_packages_path or "lib"):
        text = str(name).replace("\\", "/")
        if text.startswith("/") or ".." in PurePosixPath(text).parts or re.match("[A-Za-z]:", text):
            raise blame("%s: %s leaves the prefix" % (record.file_name, text[:200]))


def describe(record: Any) -> dict[str, Any]:
    """Return the record as JSON values."""
    return {
        "name": record.name.source,
        "version": str(record.version),
        "build": str(record.build),
        "subdir": record.subdir,
        "channel": record.channel or "",
        "url": record.url,
        "sha256": (record.sha256 or b"").hex(),
        "depends": list(record.depends),
    }


def one_line(error: BaseException) -> str:
    """Return the error's message in one line, without repeated causes and without credentials."""
    text = SECRET.sub("***", str(error))
    lines = dict.fromkeys(line.strip() for line in text.splitlines() if line.strip())
    return " ".join(lines) or type(error).__name__


def main() -> None:
    """Perform the task, and write the answer."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path.extend(request["path"])
    answer: dict[str, Any] = {}
    try:
        import rattler

        answer = {"version": rattler.__version__}
        request["platform"] = request["platform"] or str(rattler.Subdir.current())
        tasks = {"collect": collect, "find": find, "install": install}
        answer.update(asyncio.run(tasks[request["task"]](request)))
    except ImportError as error:
        answer["lacking"] = str(error)
    except Refused as error:
        answer["refused"] = str(error)
    except Unsolved as error:
        answer["unsolved"] = str(error)
    except Broke as error:
        answer["broke"] = str(error)
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
