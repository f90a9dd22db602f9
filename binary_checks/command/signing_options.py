"""The options of commands that sign; keys are read from files, never from arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from binary_checks.fleet.artifacts import SigningKey, load_signing_key, read_passphrase


def sign_options(what: str) -> dict[str, Mapping[str, Any]]:
    """Return ``--key`` and the option for its passphrase, with the keywords of each argument."""
    return {
        "--key": {
            "metavar": "FILE",
            "action": "append",
            "default": [],
            "help": f"sign {what} with the ed25519 key in this PEM file (repeatable)",
        },
        "--passphrase-env": {
            "metavar": "VARIABLE",
            "default": "",
            "help": "the environment variable that holds the key's passphrase",
        },
    }


def read_signing_keys(options: argparse.Namespace) -> list[SigningKey]:
    """Return the named keys. Raises ProfileError before anything is changed."""
    passphrase = read_passphrase(options.passphrase_env)
    return [load_signing_key(each, passphrase) for each in options.key]
