"""The columns of each Parquet table, by which everything that asks knows them."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, Mapping[str, str]] = {
    "cells": {  # a row a cell and night: how its night ended
        "night": "DATE",
        "cell": "VARCHAR",
        "project": "VARCHAR",
        "kind": "VARCHAR",
        "libtorch": "VARCHAR",
        "system": "VARCHAR",
        "architecture": "VARCHAR",
        "python": "VARCHAR",
        "variant": "VARCHAR",
        "cxx_abi": "VARCHAR",
        "channel": "VARCHAR",
        "place": "VARCHAR",
        "gpu": "BOOLEAN",  # whether its second stage has ended too
        "state": "VARCHAR",
        "reason": "VARCHAR",
        "cause": "VARCHAR",
        "cause_kind": "VARCHAR",
        "evidence": "VARCHAR",
        "attempts": "USMALLINT",
        "problems": "UINTEGER",
        "warnings": "UINTEGER",
        "accepted": "UINTEGER",
        "not_inspected": "UINTEGER",  # checks that could not inspect, in whole or in part
        "file_name": "VARCHAR",
        "version": "VARCHAR",
        "url": "VARCHAR",
        "sha256": "VARCHAR",
        "size": "UBIGINT",  # bytes
        "uploaded": "VARCHAR",
        "serial": "VARCHAR",
        "facts": "VARCHAR",  # SHA-256 under which the store has them; "" for none
        "seconds": "REAL",  # of all attempts
        "cpu_seconds": "REAL",
        "peak_memory": "UBIGINT",  # bytes
        "started": "TIMESTAMP",
        "log": "VARCHAR",  # the store's name of the last attempt's log
    },
    "checks": {  # a row a check, cell and night, of the last attempt of each stage
        "night": "DATE",
        "cell": "VARCHAR",
        "stage": "VARCHAR",
        "check": "VARCHAR",
        "family": "VARCHAR",
        "check_place": "VARCHAR",  # of several places the one it ran in
        "outcome": "VARCHAR",
        "reason": "VARCHAR",
        "problems": "UINTEGER",
        "path": "VARCHAR",  # of the first problem, or warning
        "sentence": "VARCHAR",
        "seconds": "REAL",
    },
    "objects": {  # a row an object file of each package that a night met first
        "night": "DATE",
        "sha256": "VARCHAR",  # of the package
        "path": "VARCHAR",
        "architecture": "VARCHAR",
        "size": "UBIGINT",
        "needed": "VARCHAR[]",
        "glibc": "VARCHAR",  # the highest version that it needs, 2.34; "" for none
        "exports": "VARCHAR",  # a digest of its exports' names and versions
        "gpu": "VARCHAR[]",  # targets of its device code: sm_90, gfx90a
    },
    "parts": {  # a row a part of each package that a night met first: what takes the bytes
        "night": "DATE",
        "sha256": "VARCHAR",  # of the package
        "part": "VARCHAR",  # native code, device code, bundled libraries, Python, data, …
        "files": "UINTEGER",
        "size": "UBIGINT",  # bytes, installed
    },
}
