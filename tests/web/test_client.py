"""The HTTP client is patient with what may pass, brief with what does not, and tells no secrets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from binary_checks.errors import (
    BinaryChecksError,
    GatherError,
    NotThere,
    ProfileError,
)
from binary_checks.web import transport
from binary_checks.web import transport as answers
from binary_checks.web.addresses import is_plain, origin_of
from binary_checks.web.client import Client
from binary_checks.web.web_settings import WebSettings, read_web_settings
from fixtures.package_index import Conduct, PackageIndex
from tests.web.conftest import CONTENT


def refused(client: Client, url: str) -> str:
    with pytest.raises(GatherError) as caught:
        client.get(url)
    return str(caught.value)


def test_a_server_that_is_busy_is_asked_again_as_often_as_the_settings_say(
    index: PackageIndex, client: Client, pauses: list[float]
) -> None:
    index.conduct["/dl/x.whl"].failures = [503, 429, 500]
    assert client.get(f"{index.url}/dl/x.whl").content == CONTENT
    assert pauses == [0.25, 0.5, 1.0]
    index.conduct["/dl/x.whl"].failures = [503] * 9
    assert refused(client, f"{index.url}/dl/x.whl") == (
        f"{index.url}/dl/x.whl: answers 503 (asked 4 times)"
    )
    assert len(index.asked) == 8


@pytest.mark.parametrize("status", [400, 403, 418, 501])
def test_what_does_not_pass_is_asked_once(index: PackageIndex, client: Client, status: int) -> None:
    index.conduct["/dl/x.whl"].failures = [status]
    assert refused(client, f"{index.url}/dl/x.whl").endswith(f"answers {status}")
    assert len(index.asked) == 1


def test_a_server_says_how_long_to_wait_and_nobody_waits_for_an_hour(
    index: PackageIndex, client: Client, pauses: list[float]
) -> None:
    index.conduct["/dl/x.whl"] = Conduct(failures=[429], retry_after="7")
    client.get(f"{index.url}/dl/x.whl")
    assert pauses == [7.0]
    index.conduct["/dl/x.whl"] = Conduct(failures=[429], retry_after="3600")
    assert refused(client, f"{index.url}/dl/x.whl").endswith("and asks to wait 3,600 s")
    assert pauses == [7.0]


def test_nothing_there_is_an_answer_of_its_own(index: PackageIndex, client: Client) -> None:
    with pytest.raises(NotThere, match=r"/dl/gone\.whl: not there \(answers 404\)"):
        client.get(f"{index.url}/dl/gone.whl")


def test_a_host_where_nobody_listens_or_that_nobody_knows_is_one_line(client: Client) -> None:
    assert refused(client, "http://127.0.0.1:9/x") == (
        "http://127.0.0.1:9/x: Connection refused (asked 4 times)"
    )
    said = refused(client, "http://no-such-host.invalid/x")
    assert "the name no-such-host.invalid cannot be resolved" in said


def test_a_cut_page_is_asked_for_again(index: PackageIndex, client: Client) -> None:
    index.conduct["/dl/x.whl"] = Conduct(cut_after=5000, cuts=2)
    assert client.get(f"{index.url}/dl/x.whl").content == CONTENT
    assert len(index.asked) == 3


def test_a_redirect_is_followed_but_not_for_ever(index: PackageIndex, client: Client) -> None:
    index.conduct["/a"].redirect = "/dl/x.whl"
    assert client.get(f"{index.url}/a").url == f"{index.url}/dl/x.whl"
    index.conduct["/a"].redirect = "/b"
    index.conduct["/b"].redirect = "/a"
    assert refused(client, f"{index.url}/a").endswith("redirects more than 10 times")


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("file:///etc/passwd", "redirects to a file: URL"),
        ("http://[broken/", "redirects to an invalid URL"),
        ("http://h:99999/", "redirects to an invalid URL"),
        ("/" + "a" * 9000, "redirects to a URL that is too long"),
        ("data:text/html,x", "redirects to a data: URL"),
    ],
)
def test_a_redirect_leads_to_web_servers_alone(
    index: PackageIndex, client: Client, location: str, said: str
) -> None:
    index.conduct["/a"].redirect = location
    assert said in refused(client, f"{index.url}/a")


def test_credentials_are_shown_to_their_own_host_alone(index: PackageIndex, client: Client) -> None:
    index.conduct["/a"].redirect = "/b"
    index.conduct["/b"].redirect = f"{index.other_host}/dl/x.whl"
    client.get(index.url.replace("//", "//me:s%40cret@") + "/a")
    shown = ["authorization" in each.headers for each in index.requests]
    assert shown == [True, True, False]
    index.requests.clear()
    index.conduct["/c"].redirect = index.other_host.replace("//", "//me:secret@") + "/dl/x.whl"
    Client().get(f"{index.url}/c")  # those in a redirect count for nothing
    assert ["authorization" in each.headers for each in index.requests] == [False, False]


def test_a_client_that_keeps_tls_follows_no_redirect_out_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    urllib3 = pytest.importorskip("urllib3")
    served = {
        "https://h/a": urllib3.HTTPResponse(status=302, headers={"Location": "http://h/x"}),
        "http://h/x": urllib3.HTTPResponse(status=404),
    }
    monkeypatch.setattr(transport.Transport, "ask", lambda _, url, headers: served[url])
    with pytest.raises(GatherError, match=r"https://h/a: redirects from https to http$"):
        Client(keeps_tls=True).get("https://h/a")
    with pytest.raises(NotThere, match="http://h/x"):
        Client().get("https://h/a")


def test_what_was_shown_once_is_shown_again_to_the_same_server(
    index: PackageIndex, client: Client
) -> None:
    index.conduct["/dl/x.whl"].credentials = ("me", "secret")
    client.get(index.url.replace("//", "//me:secret@") + "/dl/x.whl")
    assert client.get(f"{index.url}/dl/x.whl").content == CONTENT


def test_credentials_stand_in_no_message(index: PackageIndex, client: Client) -> None:
    index.conduct["/dl/x.whl"].credentials = ("me", "right")
    url = index.url.replace("//", "//me:wrong-secret@") + "/dl/x.whl?signature=hidden"
    said = refused(client, url)
    assert said == f"{index.url}/dl/x.whl: asks for credentials (answers 401)"


def test_credentials_come_out_of_the_users_netrc_if_it_can_be_read(
    index: PackageIndex, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    index.conduct["/dl/x.whl"].credentials = ("me", "secret")
    settings = read_web_settings({}, {"HOME": str(tmp_path)})
    assert Client(settings).get(f"{index.url}/dl/x.whl").content == CONTENT
    (tmp_path / "n").write_text("nonsense secret\n")
    settings = read_web_settings({}, {"NETRC": str(tmp_path / "n")})
    with pytest.raises(GatherError, match=r"n: cannot be read \(line 1\)$"):
        Client(settings).get(f"{index.url}/dl/x.whl")


def test_pages_may_be_compressed(index: PackageIndex, client: Client) -> None:
    index.conduct["/dl/x.whl"].encoding = "gzip"
    assert client.get(f"{index.url}/dl/x.whl").content == CONTENT


def test_a_bomb_is_not_inflated_and_a_body_without_an_end_is_cut_short(
    index: PackageIndex, client: Client
) -> None:
    index.conduct["/bomb"] = Conduct(body=bytes(50 << 20), encoding="gzip")
    with pytest.raises(GatherError, match="decompresses to more than 1,000,000 bytes"):
        client.get(f"{index.url}/bomb", limit=1_000_000)
    assert index.sent < 1 << 20
    index.conduct["/endless"].endless = True
    with pytest.raises(GatherError, match="more than 1,000,000 bytes"):
        client.get(f"{index.url}/endless", limit=1_000_000)


def test_a_server_that_sends_a_header_a_letter_at_a_time_is_left(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket
    import threading

    monkeypatch.setattr(transport, "_PATIENCE", 0.2)
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        connection.recv(1000)
        with connection:
            for _ in range(200):
                if over.wait(0.02):
                    return
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        with pytest.raises(GatherError):
            Client(WebSettings(retries=0)).get(f"http://127.0.0.1:{server.getsockname()[1]}/")
        over.set()
        thread.join()


def test_a_server_that_sends_a_body_a_bit_at_a_time_is_left(
    index: PackageIndex, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each bit is in time: what the whole takes is what counts."""
    monkeypatch.setattr(answers, "_WINDOW", 0.05)
    monkeypatch.setattr(answers, "_SLOWEST", 1 << 30)
    index.conduct["/dl/x.whl"].pause = 0.02
    with pytest.raises(GatherError, match=r"x\.whl: sends only [\d,]+ bytes a minute"):
        client.get(f"{index.url}/dl/x.whl")
    with pytest.raises(GatherError, match=r"x\.whl: sends only [\d,]+ bytes a minute"):
        client.download(f"{index.url}/dl/x.whl", tmp_path / "y")
    monkeypatch.setattr(answers, "_SLOWEST", 0)  # a page is left although it is fast enough
    monkeypatch.setattr(answers, "_LONGEST_PAGE", 0.05)
    with pytest.raises(GatherError, match=r"x\.whl: not complete after 0 s"):
        client.get(f"{index.url}/dl/x.whl")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "C:x.whl", "x.whl:more", "a\0"])
def test_a_name_that_leads_elsewhere_on_some_system_is_no_plain_one(name: str) -> None:
    assert not is_plain(name)
    assert is_plain("demo-1.0+cu126-py3-none-any.whl")


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "http:///x", "http://h:0/x", "nonsense", "http://[::1/x", "http://h:x/"]
)
def test_no_other_url_is_asked_for(client: Client, url: str) -> None:
    with pytest.raises(BinaryChecksError, match=r"not a URL|neither http, https nor file"):
        client.get(url)


def test_a_file_url_is_read_like_the_others(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a b.html").write_text("<html>")
    answer = client.get((tmp_path / "a b.html").as_uri())
    assert (answer.content, answer.content_type) == (b"<html>", "text/html")
    with pytest.raises(NotThere):
        client.get((tmp_path / "gone").as_uri())
    with pytest.raises(GatherError, match="of another host"):
        client.get("file://elsewhere/x")


def test_proxies_and_those_who_need_none(index: PackageIndex) -> None:
    environ = {"http_proxy": "http://127.0.0.1:9", "NO_PROXY": "example.org, 127.0.0.1"}
    assert Client(read_web_settings({}, environ)).get(f"{index.url}/dl/x.whl").content == CONTENT
    del environ["NO_PROXY"]
    with pytest.raises(GatherError):
        Client(read_web_settings({"retries": "0"}, environ)).get(f"{index.url}/dl/x.whl")
    index.asked.clear()
    index.requests.clear()
    index.conduct["*"] = Conduct(body=b"through the proxy")
    environ = {"http_proxy": index.url.replace("//", "//me:secret@")}
    settings = read_web_settings({}, environ)
    assert Client(settings).get("http://example.invalid/x").content == b"through the proxy"
    assert index.asked == ["http://example.invalid/x"]
    assert "proxy-authorization" in index.requests[0].headers


def test_pips_own_settings_win() -> None:
    pip = {"cert": "/ca.pem", "timeout": "3", "retries": "99", "trusted-host": "a b:8080"}
    settings = read_web_settings(pip, {"SSL_CERT_FILE": "/other.pem"})
    assert (settings.certificates, settings.timeout, settings.retries) == ("/ca.pem", 3.0, 10)
    assert settings.trusted_hosts == ("a", "b:8080")


def test_authorities_or_a_library_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProfileError, match=r"gone\.pem: cannot be read: No such file"):
        Client(WebSettings(certificates=str(tmp_path / "gone.pem"))).get("https://127.0.0.1:9/")
    monkeypatch.setitem(sys.modules, "urllib3", None)
    with pytest.raises(ProfileError, match="pip install urllib3"):
        Client().get("http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("spared", "through"),
    [
        ("example.org 127.0.0.1", False),
        ("example.org,127.0.0.1", False),
        ("*.0.0.1", False),
        (".0.0.1", False),
        ("*", False),
        ("example.org, *", False),
        ("*.example.org", True),
        ("", True),
    ],
)
def test_hosts_that_need_no_proxy_are_separated_by_commas_or_blanks(
    spared: str, through: bool
) -> None:
    settings = read_web_settings({}, {"http_proxy": "proxy:3128", "no_proxy": spared})
    proxy = settings.find_proxy(origin_of("http://127.0.0.1:80/"))
    assert proxy == ("http://proxy:3128" if through else "")


def test_a_header_of_a_request_to_a_cgi_program_is_no_proxy() -> None:
    def find(**environ: str) -> str:
        return read_web_settings({}, environ).find_proxy(origin_of("http://h/"))

    assert find(HTTP_PROXY="a:1") == "http://a:1"
    assert find(HTTP_PROXY="a:1", http_proxy="b:1") == "http://b:1"
    assert find(HTTP_PROXY="a:1", REQUEST_METHOD="GET") == ""
    assert find(HTTP_PROXY="a:1", REQUEST_METHOD="GET", ALL_PROXY="b:1") == "http://b:1"


def test_redirects_and_errors_keep_their_connection(index: PackageIndex, client: Client) -> None:
    index.conduct["/a"].redirect = "/dl/x.whl"
    for _ in range(3):
        client.get(f"{index.url}/a")
        with pytest.raises(NotThere):
            client.get(f"{index.url}/dl/gone.whl")
    assert index.connections == 1


@pytest.mark.parametrize("text", ["9" * 4000, "-5", "soon", "Sat, 99 Nov 2026 00:00:00 GMT"])
def test_nonsense_of_a_server_about_waiting_breaks_nothing(
    index: PackageIndex, client: Client, text: str
) -> None:
    index.conduct["/dl/x.whl"] = Conduct(failures=[429], retry_after=text)
    try:
        client.get(f"{index.url}/dl/x.whl")
    except GatherError as error:
        assert len(str(error)) < 300
