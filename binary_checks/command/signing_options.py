"""The options of commands that sign; keys are read from files, never from arguments."""

from __future__ import annotations

import argparse

from binary_checks.fleet.artifacts import SigningKey, load_signing_key, read_passphrase


def add_signing_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--key`` and the option for its passphrase."""
    add = parser.add_argument
    add(
        "--key",
        metavar="FILE",
        action="append",
        default=[],
        help=f"sign {what} with the ed25519 key in this PEM file (repeatable)",
    )
    add(
        "--passphrase-env",
        metavar="VARIABLE",
        default="",
        help="the environment variable that holds the key's passphrase",
    )
    add(
        "--passphrase-file",
        metavar="FILE",
        default="",
        help="the file that contains the passphrase",
    )


def read_signing_keys(options: argparse.Namespace) -> list[SigningKey]:
    """Return the named keys. Raises ProfileError before anything is changed."""
    passphrase = read_passphrase(options.passphrase_env, options.passphrase_file)
    return [load_signing_key(each, passphrase) for each in options.key]
