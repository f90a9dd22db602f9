"""The columns of each Parquet table, by which everything that asks knows them."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, Mapping[str, str]] = {
    "cells": {  # a row a cell and night: how its night ended
        "night": "DATE",  # UTC
        "cell": "VARCHAR",  # its id: the values of its axes
        "project": "VARCHAR",  # the axes, from here to source; one that the matrix lacks is empty
        "kind": "VARCHAR",
        "libtorch": "VARCHAR",
        "system": "VARCHAR",
        "architecture": "VARCHAR",
        "python": "VARCHAR",
        "variant": "VARCHAR",
        "cxx_abi": "VARCHAR",
        "source": "VARCHAR",
        "place": "VARCHAR",  # where it ran: image:oldest; empty for a fresh environment
        "gpu": "BOOLEAN",  # whether its second stage has ended too
        "state": "VARCHAR",  # passed, known, failed, not judged and so on (docs/nightly.md)
        "reason": "VARCHAR",  # of a state that has no problems to show
        "cause": "VARCHAR",  # why it has no verdict, or the check that failed (docs/causes.md)
        "cause_kind": "VARCHAR",  # infra, product, tool, unknown
        "evidence": "VARCHAR",  # the line that the cause was told by
        "attempts": "USMALLINT",  # of both stages
        "problems": "UINTEGER",  # of the attempts that decided, as the next three
        "warnings": "UINTEGER",
        "accepted": "UINTEGER",  # problems that are known
        "not_inspected": "UINTEGER",  # checks that could not inspect, in whole or in part
        "file_name": "VARCHAR",  # of the package
        "version": "VARCHAR",
        "url": "VARCHAR",  # without credentials
        "sha256": "VARCHAR",  # of the package
        "size": "UBIGINT",  # bytes
        "uploaded": "VARCHAR",  # as the index states it
        "serial": "VARCHAR",  # of the index
        "facts": "VARCHAR",  # SHA-256 under which the store has them; "" for none
        "seconds": "REAL",  # of all attempts
        "installing": "REAL",  # seconds of the attempts that decided; no check's own
        "cpu_seconds": "REAL",  # of all attempts
        "peak_memory": "UBIGINT",  # bytes
        "started": "TIMESTAMP",  # of the first attempt, UTC
        "log": "VARCHAR",  # the store's name of the last attempt's log
    },
    "checks": {  # a row a check, cell and night, of the last attempt of each stage
        "night": "DATE",
        "cell": "VARCHAR",
        "stage": "VARCHAR",  # cpu, gpu
        "check": "VARCHAR",  # its id
        "family": "VARCHAR",
        "check_place": "VARCHAR",  # of several places the one it ran in
        "outcome": "VARCHAR",  # passed, warned, accepted, failed, error, not inspected, …
        "reason": "VARCHAR",  # why it was not applicable, not inspected or broke
        "problems": "UINTEGER",  # errors that nobody accepted
        "path": "VARCHAR",  # of the first problem, or warning
        "sentence": "VARCHAR",  # of the same problem
        "seconds": "REAL",
    },
    "objects": {  # a row an object file of each package that a night met first
        "night": "DATE",  # the first that met the package
        "sha256": "VARCHAR",  # of the package
        "path": "VARCHAR",  # relative to the prefix that it is installed in
        "architecture": "VARCHAR",  # x86_64, aarch64, …
        "size": "UBIGINT",  # bytes
        "needed": "VARCHAR[]",  # the libraries that it needs
        "glibc": "VARCHAR",  # the highest version that it needs, 2.34; "" for none
        "exports": "VARCHAR",  # a digest of its exports' names and versions
        "gpu": "VARCHAR[]",  # targets of its device code: sm_90, gfx90a
    },
    "parts": {  # a row a part of each package that a night met first: what takes the bytes
        "night": "DATE",  # the first that met the package
        "sha256": "VARCHAR",  # of the package
        "part": "VARCHAR",  # native code, device code, bundled libraries, Python, data, …
        "files": "UINTEGER",  # that are of the part, or have some of it
        "size": "UBIGINT",  # bytes, installed
    },
}
