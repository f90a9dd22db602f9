"""Builds the root file system of a Debian suite by mmdebstrap, of packages that apt has verified.

Nothing of them runs: mmdebstrap only unpacks (`extract`), as a user without rights (`chrootless`),
and writes a tar stream that we unpack ourselves.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model.root_filesystem import ImagePackage
from binary_checks.places.images.image_entries import ImageEntry
from binary_checks.places.images.root_tree import unpack_root
from binary_checks.withheld import user_environment

_PROGRAMS = {"mmdebstrap": "mmdebstrap", "apt-get": "apt", "dpkg-deb": "dpkg", "tar": "tar"}
"""What is needed, and the package that has it."""
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_MOST_SAID = 64 * 1024  # bytes of what it complains about
_CAUSES = {
    "cannot be reached": r"could not resolve|failed to connect|connection (?:failed|timed|refused)"
    r"|unable to connect|network is unreachable|temporary failure|cannot initiate",
    "is not there, or is there no more": r"does not have a release file|\b404\b|no release file"
    r"|file not found",
    "is not signed by anybody trusted": r"NO_PUBKEY|is not signed|signatures? (?:were|was|couldn't)"
    r"|EXPKEYSIG|BADSIG|sqv returned|the public key is not available|invalid signature",
    "is out of date: its signature has expired": r"is expired|not valid yet|is not yet valid",
    "has no such package": r"unable to locate package|has no installation candidate"
    r"|unmet dependencies|package .* not found",
    "does not have the architecture": r"doesn't support architecture|doesn't have the component",
    "cannot be unpacked: the disk is full": r"no space left|disk quota",
}


def build_root(entry: ImageEntry, root: Path, *, timeout: float) -> tuple[ImagePackage, ...]:
    """Build an image into a new folder; returns the packages that it is made of.

    Raises Unavailable with what is missing or why the suite cannot be had.
    """
    demand_programs()
    if not Path(entry.keyring).is_file():
        raise Unavailable(
            f"{entry.keyring}, which holds the keys of those who may sign it, "
            "is not there; install debian-archive-keyring"
        )
    with _make_scratch() as (scratch, user), tempfile.TemporaryFile() as said:
        with _start(entry, scratch, user, said, timeout) as (process, late):
            assert process.stdout is not None
            packages, broken = _unpack(process.stdout, root)
            status = process.wait()
        if late.is_set():
            raise Unavailable(f"it was not built within {timeout:g} s")
        if status and (status > 0 or broken is None):
            raise _explain(entry, said, status)
    if broken:
        raise broken
    return packages


def _unpack(stream: IO[bytes], root: Path) -> tuple[tuple[ImagePackage, ...], GatherError | None]:
    """Unpack the stream; where it ends too early, whoever made it knows more."""
    with stream:
        try:
            return unpack_root(stream, root), None
        except GatherError as error:
            return (), error


def demand_programs() -> None:
    """Raise Unavailable, with what to install, where this host lacks a program."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            raise Unavailable(
                f"an image cannot be built here: there is no {program}; install {package}"
            )


@contextlib.contextmanager
def _make_scratch() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Make a folder to build in, and say as whom: root builds as nobody."""
    user = _make_user()
    scratch = Path(tempfile.mkdtemp(prefix="binary_checks-image-", dir=_find_open_folder()))
    try:
        if user:
            os.chown(scratch, user["user"], user["group"])
        yield scratch, user
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_user() -> dict[str, Any]:
    """Say as whom to build, in the words of subprocess: root lends no rights to what it reads."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _find_open_folder() -> str:
    """Find a folder for temporary files that another user than root gets to, too."""
    usual = tempfile.gettempdir()
    if os.geteuid() != 0:
        return usual
    above = (Path(usual).resolve(), *Path(usual).resolve().parents)
    closed = [each for each in above if not each.stat().st_mode & stat.S_IXOTH]
    return "/var/tmp" if closed else usual  # noqa: S108


@contextlib.contextmanager
def _start(
    entry: ImageEntry, scratch: Path, user: dict[str, Any], said: IO[bytes], timeout: float
) -> Iterator[tuple[subprocess.Popen[bytes], threading.Event]]:
    """Start mmdebstrap; at the time limit, or with the block, it is killed with all it started."""
    process = subprocess.Popen(
        make_command(entry),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=said,
        cwd=scratch,
        env=_make_environment(scratch),
        start_new_session=True,
        **user,
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(timeout, end)
    timer.start()
    try:
        yield process, late
    finally:
        timer.cancel()
        _kill(process)
        process.wait()


def make_command(entry: ImageEntry) -> tuple[str, ...]:
    """Spell how mmdebstrap makes the stream of an image."""
    # Nobody passes off an old state as today's where the bytes are pinned: archives have old ones.
    old = " check-valid-until=no" if entry.digest or entry.pinned else ""
    options = f'[signed-by="{entry.keyring}"{old}]'
    return (
        *("mmdebstrap", "--mode=chrootless", "--variant=extract", "--format=tar", "--verbose"),
        # The packages stay in the stream, from which their hashes are taken.
        "--skip=essential/unlink,cleanup/apt/cache",
        f"--architectures={entry.architecture}",
        f"--include={','.join(entry.packages)}",
        *("--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Retries 2"),
        *(entry.suite, "-", f"deb {options} {entry.mirror} {entry.suite} main"),
    )


def _make_environment(scratch: Path) -> dict[str, str]:
    theirs = user_environment()
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "0",
        **dict.fromkeys(("HOME", "TMPDIR"), str(scratch)),
        **{name: theirs[name] for name in _PROXIES if name in theirs},
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _explain(entry: ImageEntry, said: IO[bytes], status: int) -> Unavailable:
    """Say why mmdebstrap made nothing."""
    said.seek(0)
    text = said.read(_MOST_SAID).decode("utf-8", "replace")
    source = f"{entry.suite} for {entry.architecture} at {entry.mirror}"
    for cause, pattern in _CAUSES.items():
        if found := re.search(f"^.*(?:{pattern}).*$", text, re.IGNORECASE | re.MULTILINE):
            return Unavailable(f"{source} {cause}: {found[0].strip().removeprefix('E: ')}")
    lines = [line for line in text.splitlines() if line.startswith("E: ")]
    first = lines[0].removeprefix("E: ") if lines else f"it ended with {status}"
    return Unavailable(f"mmdebstrap cannot build {source}: {first}")
