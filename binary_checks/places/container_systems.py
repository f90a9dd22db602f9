"""Asks the system of a container what it is, and has its own loader load objects."""

from __future__ import annotations

import os
import posixpath
import re
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from binary_checks.model.places import CleanSystem, LoaderAnswer
from binary_checks.places.containers import Container

_KEPT = 8 << 20  # bytes of what a loader says of one object: a symbol is a line with a path
_TOGETHER = 25  # objects that are loaded by one command: each command takes 0.1 s by itself
_PYTHONS_OWN = "libpthread.so.0 libdl.so.2 libutil.so.1 libm.so.6"
"""What every CPython is linked with, so that modules use it without naming it: numpy's dladdr."""
_KILLED = "137"  # the status of what was killed at its limit
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
"""The dynamic loaders by name, and the model's spelling of their architectures."""
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
for each in /usr/local/bin/python3.* /usr/bin/python3.* /opt/python/cp3*/bin/python; do
  if [ -x "$each" ]; then echo "python $each"; fi
done
"""
# What ldd -r does: glibc's loader then looks up every version and symbol, and runs nothing.
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


def look_around(container: Container, known: CleanSystem, timeout: float) -> CleanSystem:
    """Add what a process finds there: the C library, the loader, and the Pythons."""
    ended = container.run(("sh", "-c", _LOOK, "sh", *_LOADERS), timeout=timeout)
    found = [line.partition(" ") for line in ended.stdout.splitlines()]
    said = {key: value for key, _, value in found}
    loader = said.get("loader", "")
    return replace(
        known,
        libc=said.get("libc", "").strip(),
        architecture=_LOADERS.get(posixpath.basename(loader), ""),
        loader=loader,
        pythons=tuple(
            value for key, _, value in found if key == "python" and _PYTHON.fullmatch(value)
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemLoader:
    """The dynamic loader of a container's system."""

    container: Container
    system: CleanSystem
    timeout: float  # seconds for one object

    def load(self, places: Sequence[str], *, python: bool) -> Mapping[str, LoaderAnswer]:
        """Have objects loaded, each in a process of its own; ``python`` loads them as one does.

        The answers are by the objects' paths in the container.
        """
        groups = [places[start : start + _TOGETHER] for start in range(0, len(places), _TOGETHER)]
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            answers = pool.map(partial(self._load_together, python=python), groups)
            return {answer.path: answer for group in answers for answer in group}

    def _load_together(self, places: Sequence[str], *, python: bool) -> list[LoaderAnswer]:
        """Have them loaded by one command, and part what is said of each."""
        mark = uuid.uuid4().hex
        listing = "" if self.system.libc.startswith("glibc") else "--list"
        preload = _PYTHONS_OWN if python else ""
        words = (mark, f"{self.timeout:.0f}", str(_KEPT), listing, preload, self.system.loader)
        ended = self.container.run(
            ("sh", "-c", _TRACE, "sh", *words, *places),
            timeout=self.timeout * len(places),
            alone=False,
            kept=4 * _KEPT * len(places),
        )
        said = ended.stdout.split(mark)[1:]
        said += [""] * (2 * len(places) - len(said))
        return [
            self._read(place, printed, complaints)
            for place, printed, complaints in zip(places, said[::2], said[1::2], strict=True)
        ]

    def _read(self, place: str, printed: str, complaints: str) -> LoaderAnswer:
        status, _, text = printed.partition("\n")
        lack = ""
        if status in ("", _KILLED):
            lack = f"hung {self.timeout:g} s"
        elif len(printed) + len(complaints) >= _KEPT:
            lack = "its loader says more of it than is read"
        elif int(status) > 128:
            lack = f"its loader crashes (signal {int(status) - 128})"
        return LoaderAnswer(
            path=place, printed=text, complaints=complaints.removeprefix("\n"), lack=lack
        )
