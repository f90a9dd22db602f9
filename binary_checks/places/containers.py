"""Containers of podman or docker: the first of the two that is installed and starts.

A container lives as long as this process. The container's first process waits until its standard
input is closed, which happens however this process ends; the engine then removes the container.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import select
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from binary_checks.errors import GatherError
from binary_checks.model import CleanSystem, LoaderAnswer
from binary_checks.places.limits import Limits, choose_memory
from binary_checks.places.processes import (
    Conversation,
    ProcessResult,
    ask_program,
    find_last_line,
    run_process,
)
from binary_checks.processes import user_environment

ENGINES = ("podman", "docker")
Mounts = tuple[tuple[Path, str], ...]
"""Paths of this host, each with its path in the container."""
_PATH = "/usr/local/bin:/usr/bin:/bin"
WORK = "/tmp"  # noqa: S108 - in the container, held in memory
_USER = "65534:65534"  # the user and group "nobody" of most distributions
_ANSWER = 60.0  # seconds in which an engine must answer
_START = 120.0  # seconds for a container to start; about 1 is usual
_COPY = 1800.0  # seconds to copy the packages of an image to this host
_PULL = 900.0  # seconds to pull an image; 100 on a slow connection
_MARGIN = 10.0  # seconds by which the limit inside the container exceeds the limit outside
_REFUSED = (125, 126, 127)
"""Exit statuses of an engine that did not run the command. The command may exit with them, too."""
# The shell reaps orphaned processes: podman's --init needs catatonit, which Debian only recommends.
_WAIT = "echo started; cat; :"
_CLEAR = f"""
cd {WORK} && for each in * .[!.]* /dev/shm/*; do
  if [ "$each" != bytecode ]; then rm -rf "$each"; fi
done
"""
_RUN = f"""
cd {WORK} && mkdir -p home empty bytecode; cd empty
limit=$1; shift; exec timeout -s KILL "$limit" "$@"
"""
_SEES_GPU = 'for each in /dev/nvidia[0-9]* /dev/dxg; do [ -e "$each" ] && exit 0; done; exit 1'
_GPU_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "podman": ("--device", "nvidia.com/gpu=all"),  # podman ignores --gpus
    "docker": ("--gpus", "all"),
}
_GPU_RECIPES: Mapping[str, str] = {
    "podman": "once as root: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    "docker": "once as root: nvidia-ctk runtime configure --runtime=docker, and restart docker",
}
"""What makes an engine able to give GPUs to containers; both are of nvidia-container-toolkit."""
_ABORT = """
for each in /proc/[0-9]*; do
  case $(tr '\\0' ' ' <"$each/cmdline") in
    *supervisor.py*) ;;
    *" faulthandler "*) kill -ABRT "${each#/proc/}" ;;
  esac
done
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerEngine:
    """A program that runs containers."""

    name: str  # "podman"
    program: str  # path of the program

    def ask(self, *words: str, seconds: float = _ANSWER) -> str:
        """Run a command of the engine and return its output.

        Raises GatherError with the last line of the engine's error output.
        """
        try:
            return ask_program((self.program, *words), timeout=seconds, env=user_environment())
        except GatherError as error:
            raise GatherError(f"{self.name}: {error}") from error


def find_engine() -> ContainerEngine:
    """Find podman or docker, the first that answers.

    Raises GatherError with the reason why each of them did not answer.
    """
    if sys.platform == "win32":
        raise GatherError("containers cannot be started on Windows; use this place on Linux")
    lacks = []
    for name in ENGINES:
        program = shutil.which(name)
        if program is None:
            continue
        lack = _try(name, program)
        if not lack:
            return ContainerEngine(name=name, program=program)
        lacks.append(lack)
    if lacks:
        raise GatherError(f"no container can be started here: {'; '.join(lacks)}")
    raise GatherError("there is no podman and no docker here; install one of them")


@lru_cache
def _try(name: str, program: str) -> str:
    """Ask the engine for its running containers; return "" or the engine's error.

    An engine that can list containers can also start them.
    """
    try:
        ContainerEngine(name=name, program=program).ask("ps", "--quiet")
    except GatherError as error:
        return str(error)
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PulledImage:
    """An image that the engine has stored."""

    id: str
    pinned: str = ""  # reference with a digest: "docker.io/library/debian@sha256:f313…"
    variables: Mapping[str, str] = field(default_factory=dict)  # that the image sets


def find_image(engine: ContainerEngine, reference: str) -> PulledImage:
    """Find an image, and pull it if the engine does not have it yet. Raises GatherError."""
    try:
        text = engine.ask("image", "inspect", reference)
    except GatherError:
        engine.ask("pull", "--quiet", reference, seconds=_PULL)
        text = engine.ask("image", "inspect", reference)
    return read_image(text, reference, engine.name)


def read_image(text: str, reference: str, engine: str) -> PulledImage:
    """Read the output of ``image inspect``. Raises GatherError if it is not understood."""
    try:
        (found,) = json.loads(text)
        name, digests = str(found["Id"]), [str(each) for each in found.get("RepoDigests") or ()]
        pinned = [reference] if "@" in reference else digests
        own = f"sha256:{name.removeprefix('sha256:')}"  # an image that was pulled from no registry
        config = found.get("Config") or {}
        lines = [str(each).partition("=") for each in config.get("Env") or ()]
        variables = {key: value for key, equals, value in lines if equals}
        return PulledImage(id=name, pinned=(*pinned, own)[0], variables=variables)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise GatherError(f"{engine}: its description of {reference} cannot be read") from None


class Container:
    """A running container. It runs commands until it is closed or this process ends."""

    def __init__(
        self, engine: ContainerEngine, image: PulledImage, limits: Limits, mounts: Mounts = ()
    ) -> None:
        """Start a container with read-only mounts. Raises GatherError with the engine's message."""
        self._engine, self._name = engine, f"binary_checks-{uuid.uuid4().hex}"
        # the folders in which the image's users find programs
        self._path = image.variables.get("PATH", "") or _PATH
        # If memory runs out, podman leaves a file in the folder where podman was started.
        self._folder = tempfile.TemporaryDirectory(
            prefix="binary_checks-", ignore_cleanup_errors=True
        )
        words = (*_list_options(engine, limits, mounts), "--name", self._name, "--entrypoint", "sh")
        command = (engine.program, "run", *words, image.id, "-c", _WAIT)
        with tempfile.TemporaryFile() as errors:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=self._folder.name,
                    env=user_environment(),
                    start_new_session=True,  # an interrupt goes only to this process
                )
            except OSError as error:
                raise GatherError(f"{engine.program}: cannot be run: {error.strerror}") from error
            assert self._process.stdout is not None
            ready, _, _ = select.select([self._process.stdout], [], [], _START)
            if not ready or self._process.stdout.readline() != b"started\n":
                self.close()
                errors.seek(0)
                text = errors.read().decode("utf-8", "replace")
                message = find_last_line(text, self._process.returncode)
                raise GatherError(f"{engine.name} starts no container: {message}")
        if limits.gpu:
            self._require_gpu()

    def _require_gpu(self) -> None:
        """Raise GatherError unless a GPU is visible: some options of engines silently give none."""
        try:
            seen = self.run(("sh", "-c", _SEES_GPU), timeout=_ANSWER).status == 0
        except GatherError:
            self.close()
            raise
        if not seen:
            self.close()
            name = self._engine.name
            raise GatherError(f"{name} shows no GPU in the container; {_GPU_RECIPES[name]}")

    @property
    def runs(self) -> bool:
        """Whether the container still runs."""
        return self._process.poll() is None

    def run(  # noqa: PLR0913 - what is run, and under what
        self,
        command: Sequence[str],
        *,
        timeout: float,
        variables: Mapping[str, str] | None = None,
        talk: Conversation | None = None,
        alone: bool = True,
        kept: int = 1 << 16,
    ) -> ProcessResult:
        """Run a command in a clean environment, with an empty working folder and an empty home.

        With ``alone=False`` the command may run at the same time as other commands, and sees the
        files that these have written.

        If the command exceeds its time limit, the container is ended: only this ends all processes
        that the command has started. Raises GatherError if the engine did not run the command.
        """
        home = f"{WORK}/home"
        environment = {
            "PATH": self._path,
            "LC_ALL": "C.UTF-8",
            **dict.fromkeys(("HOME", "TMPDIR"), home),
            **(variables or {}),
        }
        settings = (f"{name}={value}" for name, value in environment.items())
        limit = f"{timeout + _MARGIN:.0f}"
        script = f"{_CLEAR}{_RUN}" if alone else _RUN
        inner = ("sh", "-c", script, "sh", limit, "env", "-i", *settings, *command)
        ended = run_process(
            (self._engine.program, "exec", "-i", self._name, *inner),
            cwd=Path(self._folder.name),
            env=user_environment(),
            timeout=timeout,
            talk=talk,
            abort=self._show_stacks,
            kept=kept,
        )
        if ended.status is None:
            self.close()
        elif not self.runs or (ended.status in _REFUSED and not self._answers()):
            message = find_last_line(ended.stderr, ended.status)
            raise GatherError(f"{self._engine.name} runs no command in the container: {message}")
        # A shell and the engine report a process killed by signal N as status 128 + N.
        killed = ended.status is not None and 128 < ended.status < 160
        return replace(ended, status=128 - ended.status) if killed and ended.status else ended

    def copy_out(self, path: str, target: Path) -> None:
        """Copy a file, or with "/." at the end what a folder contains. Raises GatherError."""
        self._engine.ask("cp", f"{self._name}:{path}", str(target), seconds=_COPY)

    def _show_stacks(self) -> None:
        """Send SIGABRT to the probe, so that it prints its stacks.

        The engine sends the signal, as the probe is not a descendant of this process.
        """
        with contextlib.suppress(GatherError):
            self._engine.ask("exec", self._name, "sh", "-c", _ABORT)

    def _answers(self) -> bool:
        try:
            self._engine.ask("exec", self._name, "true")
        except GatherError:
            return False
        return True

    def close(self) -> None:
        """End the container and all its processes, and wait until it is removed."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if process.poll() is None:
            with contextlib.suppress(GatherError):
                self._engine.ask("kill", self._name)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ANSWER)
        process.kill()
        process.wait()
        self._folder.cleanup()


def _list_options(engine: ContainerEngine, limits: Limits, mounts: Mounts) -> tuple[str, ...]:
    """Return the options for a container with these mounts and limits, and no other rights."""
    network = () if limits.network else ("--network", "none")
    gpu = _GPU_OPTIONS[engine.name] if limits.gpu else ()
    # SELinux would otherwise hide this host's folders unless it could write labels to them.
    rights = ("--security-opt", "no-new-privileges", "--security-opt", "label=disable")
    binds = (f"type=bind,source={path},target={target},readonly" for path, target in mounts)
    return (
        *("--interactive", "--rm", "--pull", "never", "--read-only", "--user", _USER),
        *("--cap-drop", "ALL", *rights, *network, *gpu),
        *("--memory", str(limits.memory or choose_memory()), "--pids-limit", str(limits.tasks)),
        *("--tmpfs", f"{WORK}:rw,exec,nosuid,nodev,size={limits.disk},mode=1777"),
        *("--shm-size", str(limits.disk)),
        *(word for bind in binds for word in ("--mount", bind)),
    )


# The operating system in a container, and its dynamic loader.

# bytes of a loader's output for one object: a line for each symbol, each with a path
_KEPT = 8 << 20
_TOGETHER = 25  # objects loaded by one command, since starting a command takes 0.1 s
_PYTHONS_OWN = "libpthread.so.0 libdl.so.2 libutil.so.1 libm.so.6"
"""Libraries with which every CPython is linked; modules use them without needing them (numpy:
dladdr).
"""
_KILLED = "137"  # exit status of a command killed at its limit: 128 + SIGKILL
_LOADERS: Mapping[str, str] = {
    "ld-linux-x86-64.so.2": "x86_64",
    "ld-linux-aarch64.so.1": "aarch64",
    "ld-linux-armhf.so.3": "armv7l",
    "ld-linux.so.2": "i686",
    "ld64.so.2": "ppc64le",
    "ld64.so.1": "s390x",
    "ld-linux-riscv64-lp64d.so.1": "riscv64",
    "ld-linux-loongarch-lp64d.so.1": "loongarch64",
    "ld-musl-x86_64.so.1": "x86_64",
    "ld-musl-aarch64.so.1": "aarch64",
    "ld-musl-armhf.so.1": "armv7l",
    "ld-musl-i386.so.1": "i686",
    "ld-musl-powerpc64le.so.1": "ppc64le",
    "ld-musl-riscv64.so.1": "riscv64",
    "ld-musl-s390x.so.1": "s390x",
}
"""Architectures, as the model names them, by the names of dynamic loaders."""
_LOOK = """
for each; do
  for folder in /lib64 /lib /usr/lib64 /usr/lib; do
    if [ -e "$folder/$each" ]; then loader=$folder/$each; break 2; fi
  done
done
echo "loader $loader"
case $loader in
  *musl*) echo "libc musl $("$loader" 2>&1 | sed -n 's/^Version //p')" ;;
  *) echo "libc $(getconf GNU_LIBC_VERSION)" ;;
esac
for each in python3 python; do
  if found=$(command -v "$each"); then echo "command $found"; fi
done
for each in /usr/local/bin/python3.* /usr/bin/python3.* /opt/python/cp3*/bin/python; do
  if [ -x "$each" ]; then echo "python $each"; fi
done
"""
# Like ldd -r: glibc's loader looks up every version and symbol, and runs no code of the objects.
_TRACE = """
mark=$1 limit=$2 most=$3 listing=$4 preload=$5 loader=$6; shift 6
out=$(mktemp) err=$(mktemp)
for each; do
  timeout -s KILL "$limit" env -i LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes LD_BIND_NOW=yes \\
    ${preload:+"LD_PRELOAD=$preload"} "$loader" $listing "$each" >"$out" 2>"$err"
  printf '%s%s\\n' "$mark" "$?"; head -c "$most" "$out"
  printf '%s\\n' "$mark"; head -c "$most" "$err"
done
rm -f "$out" "$err"
"""
_PYTHON = re.compile(r"/opt/python/.+|.*/python3\.\d+t?")


def identify_system(container: Container, known: CleanSystem, timeout: float) -> CleanSystem:
    """Complete the known facts with the C library, the loader and the Pythons in the container."""
    ended = container.run(("sh", "-c", _LOOK, "sh", *_LOADERS), timeout=timeout)
    found = [line.partition(" ") for line in ended.stdout.splitlines()]
    values = {key: value for key, _, value in found}
    loader = values.get("loader", "")
    return replace(
        known,
        libc=values.get("libc", "").strip(),
        architecture=_LOADERS.get(posixpath.basename(loader), ""),
        loader=loader,
        pythons=tuple(
            value for key, _, value in found if key == "python" and _PYTHON.fullmatch(value)
        ),
        commands=tuple(value for key, _, value in found if key == "command"),
    )


def load_objects(
    container: Container,
    system: CleanSystem,
    timeout: float,
    places: Sequence[str],
    *,
    python: bool,
) -> Mapping[str, LoaderAnswer]:
    """Load each object in a separate process; return answers by path in the container.

    ``timeout`` is the number of seconds for one object. With ``python``, preload the libraries that
    every Python process has loaded.
    """
    listing = "" if system.libc.startswith("glibc") else "--list"
    preload = _PYTHONS_OWN if python else ""

    def load_together(places: Sequence[str]) -> list[LoaderAnswer]:
        """Load objects with one command, and split its output by object."""
        mark = uuid.uuid4().hex
        words = (mark, f"{timeout:.0f}", str(_KEPT), listing, preload, system.loader)
        ended = container.run(
            ("sh", "-c", _TRACE, "sh", *words, *places),
            timeout=timeout * len(places),
            alone=False,
            kept=4 * _KEPT * len(places),
        )
        outputs = ended.stdout.split(mark)[1:]
        outputs += [""] * (2 * len(places) - len(outputs))
        return [
            _read_output(place, printed, complaints, timeout)
            for place, printed, complaints in zip(places, outputs[::2], outputs[1::2], strict=True)
        ]

    groups = [places[start : start + _TOGETHER] for start in range(0, len(places), _TOGETHER)]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return {each.path: each for group in pool.map(load_together, groups) for each in group}


def _read_output(place: str, printed: str, complaints: str, timeout: float) -> LoaderAnswer:
    status, _, text = printed.partition("\n")
    lack = ""
    if status in ("", _KILLED):
        lack = f"hung {timeout:g} s"
    elif len(printed) + len(complaints) >= _KEPT:
        lack = "its loader prints too much output"
    elif int(status) > 128:
        lack = f"its loader crashes (signal {int(status) - 128})"
    return LoaderAnswer(
        path=place, printed=text, complaints=complaints.removeprefix("\n"), lack=lack
    )
