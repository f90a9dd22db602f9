"""Lists of known problems behind URLs: what holds, and what does not, whatever a server does."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.places import index_settings
from binary_checks.sources.known_problem_lists import LoadedList, load_list
from fixtures.package_index import PackageIndex, serve_only_index

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")

NOW = datetime(2026, 11, 22, 4, 0, tzinfo=timezone.utc)
PATH = "/known.toml"
ENTRY = '[[known_problems]]\ncheck = "missing-library"\nreason = "issue 7"\n'
LIST = f"issued = 2026-11-20\nvalid_until = 2026-11-30\n{ENTRY}"
OLDER = LIST.replace("2026-11-20", "2026-11-19")
NEWER = LIST.replace("2026-11-20", "2026-11-21T10:00:00Z")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    monkeypatch.setattr(index_settings, "has_pip", lambda: False)  # its variables are enough
    with serve_only_index(monkeypatch, tmp_path / "cache") as served:
        serve(served, LIST)
        yield served


def serve(index: PackageIndex, text: str | bytes) -> None:
    index.conduct[PATH].body = text.encode() if isinstance(text, str) else text


def fetch(index: PackageIndex, fragment: str = "", now: datetime = NOW) -> LoadedList:
    return load_list(f"{index.url}{PATH}{fragment}", Path(), now)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def pin(text: str) -> str:
    return f"#sha256={digest(text)}"


def test_a_list_that_is_served_holds_and_says_which_it_is(index: PackageIndex) -> None:
    held = fetch(index)
    assert [each.reason for each in held.entries] == ["issue 7"]
    where = f"known problems {index.url}{PATH}: known_problems[0]"
    assert held.entries[0].listed == where  # as one of a file says it
    said = held.identity
    assert (said.source, said.sha256) == (f"{index.url}{PATH}", digest(LIST))
    assert (said.issued, said.valid_until) == ("2026-11-20", "2026-11-30")
    assert (said.cached, said.remark, said.complaint) == (False, "", "")
    index.conduct[PATH].encoding = "gzip"
    assert fetch(index).identity.sha256 == digest(LIST)


def test_of_a_list_that_did_not_change_only_its_head_is_sent(index: PackageIndex) -> None:
    fetch(index)
    sent = index.sent
    held = fetch(index)
    assert held.entries
    assert held.identity.cached
    assert not held.identity.remark
    assert index.sent == sent


@pytest.mark.parametrize(
    ("conduct", "why"),
    [
        ({"failures": [500] * 3}, "answers 500"),
        ({"failures": [304] * 3}, "answers 304; no copy of it"),
        ({"html": True}, "a web page (HTML) instead of the list"),
        ({"body": b"<html><body>Please log in", "content_type": "text/plain"}, "a web page (HTML)"),
        ({"redirect": "file:///etc/passwd"}, "redirects to a file: URL"),
        ({"body": b"\xff\xfe"}, "not TOML: 'utf-8' codec can't decode"),
        ({"body": b"known_problems = 1\n"}, "known_problems: 1 is not an array of tables"),
        ({"body": b"a = " + b"[" * 100_000}, "not TOML: too deeply nested"),
        ({"body": b"#" * (5 << 20)}, "at most 4,194,304 are allowed"),
        ({"encoding": "br"}, "is sent in an unknown encoding"),
    ],
)
def test_whatever_a_server_does_no_waiver_holds_without_a_copy_and_one_line_says_why(
    index: PackageIndex, conduct: dict[str, object], why: str
) -> None:
    for name, value in conduct.items():
        setattr(index.conduct[PATH], name, value)
    held = fetch(index)
    assert held.entries == ()
    assert held.complaint.startswith(f"known list unavailable: {index.url}{PATH}: ")
    assert why in held.complaint
    assert held.complaint.endswith("; no copy of it is kept here")


@pytest.mark.parametrize("conduct", [{"failures": [503] * 3}, {"html": True}, {"body": b"?"}])
def test_a_copy_that_is_still_valid_holds_and_the_run_says_so(
    index: PackageIndex, conduct: dict[str, object]
) -> None:
    fetch(index)
    for name, value in conduct.items():
        setattr(index.conduct[PATH], name, value)
    held = fetch(index, now=NOW + timedelta(days=1))
    assert len(held.entries) == 1
    assert held.identity.cached
    said = "the copy of 2026-11-22T04:00:00Z is used, which is valid until 2026-11-30"
    assert held.identity.remark.endswith(said)


def test_a_server_that_is_gone_leaves_the_copy_until_it_ends(index: PackageIndex) -> None:
    fetch(index)
    index.conduct[PATH].redirect = "http://127.0.0.1:9/"  # nobody listens there
    assert fetch(index, now=datetime(2026, 11, 30, 23, 59, tzinfo=timezone.utc)).entries
    held = fetch(index, now=datetime(2026, 12, 1, tzinfo=timezone.utc))
    assert held.entries == ()
    assert held.complaint.endswith(
        "the copy of 2026-11-22T04:00:00Z: it was valid until 2026-11-30"
    )


def test_a_server_that_stalls_is_left_in_time(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "1")
    index.conduct[PATH].pause = 60.0
    assert "no answer in time" in fetch(index).complaint


def test_a_copy_that_does_not_say_how_long_it_is_valid_is_no_stand_in(index: PackageIndex) -> None:
    serve(index, ENTRY)
    assert fetch(index).entries
    index.conduct[PATH].failures = [500]
    held = fetch(index)
    assert held.entries == ()
    assert held.complaint.endswith("has no valid_until")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LIST.replace("2026-11-30", "2026-11-21"), "it was valid until 2026-11-21"),
        (
            LIST.replace("2026-11-20", "2026-11-22T04:06:00Z"),
            "its issue date is 2026-11-22T04:06:00+00:00, which is in the future",
        ),
        (
            LIST.replace("2026-11-20", "2026-11-24"),
            "issue date is 2026-11-24, which is in the future",
        ),
    ],
)
def test_a_fresh_list_of_another_time_does_not_hold(
    index: PackageIndex, text: str, why: str
) -> None:
    serve(index, text)
    for _ in range(2):  # nor is it kept
        held = fetch(index)
        assert held.entries == ()
        assert why in held.complaint
    for issued in ("2026-11-22", "2026-11-22T13:00:00+09:00", "2026-11-22T04:04:00Z"):
        serve(index, LIST.replace("2026-11-20", issued))  # clocks may be a little apart
        held = fetch(index)
        assert (len(held.entries), held.identity.remark) == (1, "")


def test_a_list_older_than_the_one_that_was_there_is_refused(index: PackageIndex) -> None:
    fetch(index)
    serve(index, OLDER)
    held = fetch(index)
    assert held.identity.sha256 == digest(LIST)
    assert held.identity.remark.startswith(
        "refused: a list issued on 2026-11-19, older than the one of 2026-11-20 "
        "that the server sent before; the "
    )
    serve(index, ENTRY)
    assert "refused: a list without a date of issue" in fetch(index).identity.remark
    serve(index, NEWER)
    assert fetch(index).identity.sha256 == digest(NEWER)
    late = fetch(index, now=NOW + timedelta(days=30))
    assert late.entries == ()


def test_other_bytes_than_the_hash_says_are_refused_with_both(index: PackageIndex) -> None:
    with pytest.raises(ProfileError) as refusal:
        fetch(index, pin(NEWER))
    assert str(refusal.value) == (
        f"known problems {index.url}{PATH}: its SHA-256 is {digest(LIST)}, not "
        f"{digest(NEWER)} as requested"
    )


def test_a_copy_of_the_hash_needs_no_server(index: PackageIndex) -> None:
    assert fetch(index, pin(LIST)).entries
    asked = len(index.asked)
    held = fetch(index, pin(LIST).upper().replace("SHA256", "sha256"))
    assert held.entries
    assert held.identity.cached
    assert len(index.asked) == asked
    index.conduct[PATH].failures = [500] * 3
    assert "no copy of it is kept here" in fetch(index, pin(NEWER)).complaint


def test_a_release_may_pin_an_older_list_but_not_one_that_has_ended(index: PackageIndex) -> None:
    fetch(index)
    serve(index, OLDER)
    assert fetch(index, pin(OLDER)).entries
    assert "it was valid until" in fetch(index, pin(OLDER), NOW + timedelta(days=30)).complaint
    serve(index, LIST)
    assert not fetch(index).identity.remark


def kept_file(tmp_path: Path, suffix: str) -> Path:
    (found,) = (tmp_path / "cache" / "known-lists").glob(f"*{suffix}")
    return found


@pytest.mark.parametrize("text", [b"", b"[]", b'{"sha256": 1}', b"\xff", b"[" * 9_000, b'{"x": 2}'])
def test_a_poisoned_note_is_dropped(index: PackageIndex, tmp_path: Path, text: bytes) -> None:
    fetch(index)
    note = kept_file(tmp_path, ".json")
    note.write_bytes(text)
    index.conduct[PATH].failures = [500] * 3
    assert "no copy of it is kept here" in fetch(index).complaint
    assert not note.exists()


def test_a_poisoned_copy_is_dropped_and_fetched_again_but_through_no_link(
    index: PackageIndex, tmp_path: Path
) -> None:
    fetch(index)
    copy = kept_file(tmp_path, ".toml")
    copy.write_text(LIST.replace("missing-library", "cuda-hijacking"))
    held = fetch(index)
    assert not held.identity.cached
    assert [each.check for each in held.entries] == ["missing-library"]
    assert hashlib.sha256(copy.read_bytes()).hexdigest() == copy.stem
    copy.rename(tmp_path / "elsewhere.toml")
    copy.symlink_to(tmp_path / "elsewhere.toml")
    index.conduct[PATH].failures = [500] * 3
    assert "no copy of it is kept here" in fetch(index).complaint


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_copies_are_for_this_user_alone_and_name_no_url(
    index: PackageIndex, tmp_path: Path
) -> None:
    load_list(f"{index.url}{PATH}?token=s3cret", Path(), NOW)
    note, copy = kept_file(tmp_path, ".json"), kept_file(tmp_path, ".toml")
    assert len([*note.parent.iterdir()]) == 2
    assert all(each.stat().st_mode & 0o077 == 0 for each in (note, copy, note.parent))
    assert not any(b"s3cret" in each.read_bytes() for each in (note, copy))
    assert set(json.loads(note.read_bytes())) == {"sha256", "fetched", "etag", "last_modified"}


def test_where_nothing_can_be_kept_the_list_holds_all_the_same(
    index: PackageIndex, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    assert fetch(index).entries


def test_secrets_of_a_url_are_never_shown(index: PackageIndex) -> None:
    index.conduct[PATH].failures = [500] * 3
    held = load_list(f"{index.url}{PATH}?X-Signature=s3cret", Path(), NOW)
    assert "s3cret" not in f"{held}"
    host = index.url.removeprefix("http://")
    with pytest.raises(ProfileError, match="credentials belong in netrc") as refusal:
        load_list(f"http://me:s3cret@{host}{PATH}", Path(), NOW)
    assert "s3cret" not in str(refusal.value)


def test_credentials_come_from_netrc(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("PIP_INDEX_URL", index.simple.replace("://", "://other:one@"))
    index.conduct[PATH].credentials = ("me", "s3cret")
    assert fetch(index).entries


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("ftp://h/known.toml", "neither a file nor a URL of http or https"),
        ("s3://h/known.toml", "neither a file nor a URL of http or https"),
        ("https:///known.toml", "it names no host"),
        ("https://h/known.toml#md5=00", "after # there must be sha256= and 64 hex digits"),
        ("https://h/known.toml#sha256=00", "after # there must be sha256= and 64 hex digits"),
        ("known.toml#sha256=", "after # there must be sha256= and 64 hex digits"),
        ("gone.toml", "No such file"),
    ],
)
def test_an_argument_that_names_no_list_is_one_line(argument: str, said: str) -> None:
    with pytest.raises(ProfileError) as refusal:
        load_list(argument, Path(), NOW)
    assert str(refusal.value).startswith("known problems ")
    assert said in str(refusal.value)


def test_a_file_is_held_against_its_hash_and_its_time(tmp_path: Path) -> None:
    for name in ("known.toml", "known#1.toml"):
        (tmp_path / name).write_text(LIST)
        assert load_list(name, tmp_path, NOW).entries
        assert load_list(f"{name}{pin(LIST)}", tmp_path, NOW).entries
    assert load_list((tmp_path / "known.toml").as_uri(), Path(), NOW).entries
    with pytest.raises(ProfileError, match="not 0000"):
        load_list(f"known.toml#sha256={'0' * 64}", tmp_path, NOW)
    late = load_list("known.toml", tmp_path, NOW + timedelta(days=30))
    assert late.entries == ()
    assert late.complaint == ("known list unavailable: known.toml: it was valid until 2026-11-30")
