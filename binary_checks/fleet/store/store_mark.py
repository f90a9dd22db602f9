"""The mark of a store, which distinguishes an empty store from a mistyped URL."""

from __future__ import annotations

import json
import re
import secrets

from binary_checks.documents.json_values import DocumentError, dump, read_json
from binary_checks.errors import StoreError
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import MARK, TOP_LEVEL
from binary_checks.safe_text import cut, one_line

STORE_SCHEMA = "binary-checks/store/1"
_ID = re.compile("[0-9a-f]{32}")


def require_mark(store: Store, *, make: bool) -> str:
    """Return the id in the store's mark. With ``make``, write a missing mark.

    Raises StoreError if there is no mark.
    """
    content = store.read(MARK)
    if content is None:
        if not make:
            raise StoreError(f"{store.url}: not a store: it has no {MARK}{_guess(store)}")
        _require_ours(store)
        made = dump({"schema": STORE_SCHEMA, "id": secrets.token_hex(16)})
        store.create(MARK, f"{made}\n".encode())
        content = store.read(MARK) or b""  # another process may have been first
    return _read_id(store, content)


def _guess(store: Store) -> str:
    if store.top():
        return "; it contains other files, or an incomplete store"
    return "; `binary-checks nightly run --store URL` makes one"


def _require_ours(store: Store) -> None:
    """Raise StoreError if the folder contains other files: it may be somebody's home folder."""
    strange = [name for name in store.top() if not name.startswith(TOP_LEVEL)]
    if strange:
        shown = cut(one_line(strange[0]), 80)
        raise StoreError(f"{store.url}: not a store, and not empty: it contains {shown}")


def _read_id(store: Store, content: bytes) -> str:
    try:
        row = read_json(content.decode("ascii"))
    except (DocumentError, UnicodeDecodeError):
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("schema"), str):
        raise StoreError(f"{store.url}: {MARK}: not the mark of a store, or truncated")
    if row["schema"] != STORE_SCHEMA:
        shown = cut(one_line(json.dumps(row["schema"])), 80)
        raise StoreError(f"{store.url}: {MARK}: its schema is {shown}, not {STORE_SCHEMA}")
    if not isinstance(row.get("id"), str) or not _ID.fullmatch(row["id"]):
        raise StoreError(f"{store.url}: {MARK}: it has no id")
    return str(row["id"])
