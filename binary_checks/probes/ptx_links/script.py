"""Find nvJitLink next to the installed package, and compile PTX to machine code with it.

This needs neither a GPU nor a driver. Nothing of the package is imported.
"""

from __future__ import annotations

import base64
import ctypes
import os
import re
import sys
import zlib

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FILE_NAME = re.compile(
    r"libnvJitLink(?:[-.][0-9a-f]{8})?\.so\.(\d+)\b.*|nvJitLink_(\d+)_\d+(?:-[0-9a-f]+)?\.dll",
    re.IGNORECASE,
)
# A text that is compiled to determine whether nvJitLink supports a target.
TRIAL = ".version 6.4\n.target sm_%d\n.address_size 64\n.visible .entry kernel()\n{\nret;\n}\n\0"
OLDEST = 30, 75  # oldest targets of CUDA 12 and of CUDA 13
TARGETS = range(50, 200)
PTX = 2  # NVJITLINK_INPUT_PTX
MOST_BYTES = 1 << 30  # bytes of a cubin
MOST_LOG = 1 << 20  # bytes of a log
SHOWN = 4000  # characters of a log
HEAD = 64  # bytes of a cubin that identify it


def probe(request: dict[str, Any], record: Any, _process: dict[str, Any]) -> None:
    """Find the library and its targets, or link the requested texts."""
    answer: dict[str, Any] = {"library": request.get("library", "")}
    record.enter("nvJitLink's start", answer)
    if answer["library"]:
        link_all(Linker(answer["library"]), request["texts"], record, answer)
    else:
        find(request["site_packages"], record, answer)
    record.finish(dict(answer, stage="", state="finished"))


def find(below: str, record: Any, answer: dict[str, Any]) -> None:
    """Find the newest library of the environment, its version, and the targets that it supports."""
    found = sorted(list_libraries(below), key=lambda each: each[0])
    if not found:
        return
    answer["library"] = found[-1][1]
    record(answer)
    linker = Linker(answer["library"])
    answer["version"] = "%d.%d" % linker.version
    record(answer)
    answer["known"] = [target for target in map("sm_%d".__mod__, TARGETS) if linker.knows(target)]


def list_libraries(below: str) -> Iterator[tuple[int, str]]:
    """Yield nvJitLink's files in site-packages and, for conda, in its folder of libraries."""
    of_prefix = [os.path.join(sys.prefix, name) for name in ("lib", os.path.join("Library", "bin"))]
    for root in (below, *of_prefix):
        for folder, folders, names in os.walk(root):
            if root != below:
                folders[:] = []
            for name in names:
                match = FILE_NAME.fullmatch(name)
                if match:
                    yield int(match.group(1) or match.group(2)), os.path.join(folder, name)


class Linker:
    """A loaded nvJitLink; the names of its functions contain the version."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.version = self.find_version(os.path.basename(path))

    def find_version(self, name: str) -> tuple[int, int]:
        """Return the newest version of nvJitLink's functions.

        The file's name states the major version.
        """
        match = FILE_NAME.fullmatch(name)
        number = (match.group(1) or match.group(2)) if match else "0"
        major = int(number[:2])
        for minor in range(99, -1, -1):
            if hasattr(self.library, "__nvJitLinkCreate_%d_%d" % (major, minor)):
                return major, minor
        raise OSError("%s has no nvJitLinkCreate of version %d" % (name, major))

    def call(self, name: str, *arguments: Any) -> int:
        """Call one of nvJitLink's functions."""
        return int(self.library["__nvJitLink%s_%d_%d" % ((name,) + self.version)](*arguments))

    def knows(self, target: str) -> bool:
        """Return whether nvJitLink can generate machine code for a target."""
        oldest = OLDEST[int(target[3:]) >= OLDEST[1]]
        return "head" in self.link((TRIAL % oldest).encode(), target)

    def link(self, text: bytes, target: str) -> dict[str, Any]:
        """Compile PTX, which ends with a NUL; return the head of the cubin, or status and log."""
        handle, option = ctypes.c_void_p(), ("-arch=" + target).encode()
        options = (ctypes.c_char_p * 1)(option)
        status = self.call("Create", ctypes.byref(handle), 1, options)
        if status:
            return {"stage": "create", "status": status, "log": ""}
        try:
            status = self.call("AddData", handle, PTX, text, ctypes.c_size_t(len(text)), b"ptx")
            if status:
                return {"stage": "assemble", "status": status, "log": self.read_log(handle)}
            status = self.call("Complete", handle)
            if status:
                return {"stage": "link", "status": status, "log": self.read_log(handle)}
            return self.read_cubin(handle)
        finally:
            self.call("Destroy", ctypes.byref(handle))

    def read_cubin(self, handle: Any) -> dict[str, Any]:
        """Read the head of the resulting cubin."""
        size = ctypes.c_size_t()
        status = self.call("GetLinkedCubinSize", handle, ctypes.byref(size))
        if status or not HEAD <= size.value <= MOST_BYTES:
            return {"stage": "cubin", "status": status, "log": "%d bytes" % size.value}
        cubin = ctypes.create_string_buffer(size.value)
        status = self.call("GetLinkedCubin", handle, cubin)
        if status:
            return {"stage": "cubin", "status": status, "log": ""}
        return {"head": cubin.raw[:HEAD].hex()}

    def read_log(self, handle: Any) -> str:
        """Read the log of errors."""
        size = ctypes.c_size_t()
        if self.call("GetErrorLogSize", handle, ctypes.byref(size)):
            return ""
        if not 0 < size.value <= MOST_LOG:
            return "a log of %d bytes" % size.value
        log = ctypes.create_string_buffer(size.value + 1)
        self.call("GetErrorLog", handle, log)
        return log.value.decode("utf-8", "replace")[:SHOWN]


def link_all(linker: Linker, texts: list[Any], record: Any, answer: dict[str, Any]) -> None:
    """Link each text for each of its targets; record each link before it starts."""
    answer["links"] = []
    for index, row in enumerate(texts):
        packed, size = base64.b64decode(row["packed"]), row["size"]
        text = zlib.decompressobj().decompress(packed, size) + b"\0"
        for target in row["targets"]:
            answer["current"] = [index, target]
            record(answer)
            answer["links"].append(dict(linker.link(text, target), text=index, target=target))
