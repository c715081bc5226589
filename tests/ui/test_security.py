"""Who is answered, and what a page may load."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.ui.security import Guard, content_security_policy, new_token

TOKEN, PORT = "a-token-for-tests", 8050
BASE = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def known(client):
    """A client with the cookie."""
    assert client.get(f"/?token={TOKEN}", base_url=BASE).status_code == 303
    return client


def test_the_token_is_exchanged_for_a_cookie_and_stripped(client):
    reply = client.get(f"/t/x/overview?by=op&token={TOKEN}", base_url=BASE)
    assert reply.status_code == 303
    assert reply.headers["Location"] == "/t/x/overview?by=op"
    cookie = reply.headers["Set-Cookie"]
    assert cookie.startswith("neuron_explorer_8050=")
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    assert TOKEN not in cookie


@pytest.mark.parametrize("path", ["/", "/_dash-layout", "/_dash-dependencies", "/assets/app.js", "/t/x/overview",
                                  "/api/v1/t/x/meta", "/_dash-component-suites/dash/dash-renderer/x.js"])  # fmt: skip
def test_nothing_without_the_cookie(client, path):
    assert client.get(path, base_url=BASE).status_code == 403


def test_everything_with_it(known):
    assert known.get("/_dash-layout", base_url=BASE).status_code == 200
    with known.get("/assets/app.js", base_url=BASE) as reply:
        assert reply.status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], "é"])
def test_a_wrong_token(client, token):
    reply = client.get("/", query_string={"token": token}, base_url=BASE)
    assert reply.status_code == 403
    assert "Set-Cookie" not in reply.headers


def test_a_wrong_token_is_refused_even_with_the_cookie(known):
    assert known.get("/?token=wrong", base_url=BASE).status_code == 403


def test_a_guessed_cookie(client):
    client.set_cookie("neuron_explorer_8050", TOKEN, domain="127.0.0.1")
    assert client.get("/_dash-layout", base_url=BASE).status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8050",
        "127.0.0.1",
        "127.0.0.1:9999",
        "localhost.evil.example:8050",
        "0.0.0.0:8050",
        "[::1]:1",
        "127.0.0.1:8050@evil.example",
        "",
    ],
)
def test_foreign_hosts(known, host):
    assert known.get("/_dash-layout", base_url=BASE, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "LOCALHOST:8050", "[::1]:8050"])
def test_own_hosts(host):
    assert Guard(TOKEN, PORT).allows_host(host)


def test_a_named_host_is_answered_only_when_named():
    assert not Guard(TOKEN, PORT).allows_host("10.0.0.5:8050")
    assert Guard(TOKEN, PORT, ("10.0.0.5",)).allows_host("10.0.0.5:8050")
    assert Guard(TOKEN, PORT, ("fe80::1",)).allows_host("[fe80::1]:8050")
    assert Guard(TOKEN, 80).allows_host("localhost")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:8050"},
        {"Origin": "http://127.0.0.1:8051"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_from_other_sites(known, headers):
    assert known.get("/_dash-layout", base_url=BASE, headers=headers).status_code == 403
    reply = known.post("/_dash-update-component", base_url=BASE, headers=headers, json={})
    assert reply.status_code == 403
    assert "Access-Control-Allow-Origin" not in reply.headers


@pytest.mark.parametrize(
    "headers", [{"Origin": BASE}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}]
)
def test_requests_of_this_site(known, headers):
    assert known.get("/_dash-layout", base_url=BASE, headers=headers).status_code == 200


def test_headers(known):
    reply = known.get("/_dash-layout", base_url=BASE)
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    assert reply.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "no-store" in reply.headers["Cache-Control"]
    policy = reply.headers["Content-Security-Policy"]
    scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
    assert "unsafe" not in scripts and "'sha256-" in scripts
    for part in (
        "default-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
    ):
        assert part in policy
    assert "http" not in policy


def test_refusals_have_the_headers_too(client):
    assert "Content-Security-Policy" in client.get("/", base_url=BASE).headers


def test_the_page_loads_nothing_from_elsewhere(known):
    trace_id = known.get("/", base_url=BASE)
    page = trace_id if trace_id.status_code == 200 else known.get(trace_id.headers["Location"], base_url=BASE)
    text = page.get_data(as_text=True)
    for outside in ("http://", "https://", "//cdn", "unpkg"):
        assert outside not in text.replace("http://www.w3.org", "")


def test_a_redirect_stays_here(client):
    for path in ("//evil.example", "/\\evil.example", "///evil.example/x"):
        reply = client.get(path, query_string={"token": TOKEN}, base_url=BASE)
        assert reply.status_code in (303, 308, 404)
        assert not reply.headers.get("Location", "/").startswith(("//", "/\\", "http://evil"))


def test_debug_and_mcp_are_off(app, known, monkeypatch):
    assert not app.server.debug
    for path in ("/_mcp", "/mcp", "/_dash-mcp", "/console"):
        reply = known.get(path, base_url=BASE)
        assert "serverInfo" not in reply.get_data(as_text=True)
    assert not any("mcp" in str(rule) for rule in app.server.url_map.iter_rules())


def test_no_path_is_served(known):
    for path in ("/assets/../app.py", "/assets/..%2fapp.py", "/assets/%2e%2e/app.py", "/t/..%2f..%2fetc/overview"):
        assert b"create_app" not in known.get(path, base_url=BASE).data


def test_a_large_body_is_refused(known):
    body = json.dumps({"x": "y" * (2 << 20)})
    reply = known.post("/_dash-update-component", base_url=BASE, data=body, content_type="application/json")
    assert reply.status_code in (400, 413)


def test_tokens_are_long_and_different():
    assert len(new_token()) >= 43
    assert new_token() != new_token()


def test_the_policy_without_hashes():
    assert "script-src 'self';" in content_security_policy([])
