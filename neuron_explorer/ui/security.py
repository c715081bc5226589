"""Who may talk to the local server, and what a page of it may load.

Loopback is shared by every user of a machine and reachable from every web page the user
has open, so each request must name a host that is allowed (DNS rebinding), come from this
site, and carry the cookie that the token of this start was exchanged for.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Iterable

    import dash
    import flask

LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY_BYTES: Final = 1 << 20
TOKEN_BYTES: Final = 32


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def host_name(host: str) -> str:
    """An address as it stands in a URL: an IPv6 address gets its brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


@dataclass(frozen=True)
class Guard:
    """The rules of one start. ``hosts``: names beside loopback that may be used."""

    token: str
    port: int
    hosts: tuple[str, ...] = ()
    session: str = field(default_factory=new_token)

    @property
    def cookie(self) -> str:
        """Cookies are shared by all ports of a host, so the port is in the name."""
        return f"neuron_explorer_{self.port}"

    def allowed_hosts(self) -> frozenset[str]:
        """Values of the Host header that are answered."""
        names = [*LOOPBACK_HOSTS, *(host_name(h).lower() for h in self.hosts)]
        allowed = {f"{name}:{self.port}" for name in names}
        return frozenset(allowed | set(names)) if self.port == 80 else frozenset(allowed)

    def allows_host(self, host: str) -> bool:
        """Whether the Host header names this server, port included."""
        return host.strip().lower() in self.allowed_hosts()

    def allows_origin(self, origin: str | None, fetch_site: str | None) -> bool:
        """Whether a request comes from this site, or from no site (typed, opened)."""
        if origin is not None:
            scheme, _, rest = origin.partition("://")
            if scheme.lower() != "http" or not self.allows_host(rest):
                return False
        return fetch_site is None or fetch_site.lower() in ("same-origin", "none")

    def knows_token(self, token: str | None) -> bool:
        """Constant-time comparison with the token of this start."""
        return _equal(token, self.token)

    def knows_session(self, session: str | None) -> bool:
        """Constant-time comparison with the session behind the cookie."""
        return _equal(session, self.session)


def _equal(given: str | None, wanted: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def content_security_policy(script_hashes: Iterable[str]) -> str:
    """The policy. Inline styles are allowed: React and the grid set them; scripts are not."""
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self'", *script_hashes)),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "form-action 'none'",
        )
    )


def _refusal_page(text: str) -> str:
    """What a browser shows that has no access, for example after the server was started again."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Neuron Explorer: no access</title>'
        '<meta name="color-scheme" content="light dark"><style>body{font:15px/1.5 system-ui,sans-serif;'
        "max-width:38em;margin:12vh auto;padding:0 1em}h1{font-size:1.3em}</style></head><body><main>"
        f"<h1>Neuron Explorer: no access</h1><p>{escape(text)}</p><p>Each start of the server has its own address, "
        "which it prints. After a restart, open the new one; links to pages work again from then on.</p>"
        "</main></body></html>\n"
    )


def protect(app: dash.Dash, guard: Guard) -> None:
    """Put the rules before every route of the app. Call it when all callbacks exist."""
    import flask

    server = app.server
    server.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    policy = content_security_policy(app.csp_hashes())

    def refuse(text: str) -> flask.Response:
        if flask.request.headers.get("Sec-Fetch-Dest") == "document":
            return flask.Response(_refusal_page(text), status=403, mimetype="text/html")
        return flask.Response(text + "\n", status=403, mimetype="text/plain")

    def check() -> flask.typing.ResponseReturnValue | None:
        request = flask.request
        if not guard.allows_host(request.headers.get("Host", "")):
            return refuse("This server answers only under its own address. Open the address it printed.")
        if not guard.allows_origin(request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")):
            return refuse("Requests from other sites are refused. Paste the printed address into the address bar.")
        if "token" in request.args and request.method in ("GET", "HEAD"):
            if not guard.knows_token(request.args.get("token")):
                return refuse("Wrong token: each start has its own. Open the address that the server printed.")
            return _exchange(request, guard)
        if not guard.knows_session(request.cookies.get(guard.cookie)):
            return refuse("No access without the token of this start. Open the address that the server printed.")
        return None

    def harden(response: flask.Response) -> flask.Response:
        headers = response.headers
        headers["Content-Security-Policy"] = policy
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "no-referrer"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["X-Frame-Options"] = "DENY"
        headers.setdefault("Cache-Control", "private, no-store")
        return response

    server.before_request_funcs.setdefault(None, []).insert(0, check)
    server.after_request_funcs.setdefault(None, []).append(harden)


def _exchange(request: flask.Request, guard: Guard) -> flask.Response:
    """Set the cookie and send the browser to the same address without the token."""
    import flask

    rest = [(key, value) for key, value in request.args.items(multi=True) if key != "token"]
    # A path such as //evil.example would be another site: keep one leading slash.
    path = "/" + request.path.lstrip("/\\")
    response = flask.redirect(path + (f"?{urlencode(rest)}" if rest else ""), code=303)
    response.set_cookie(guard.cookie, guard.session, httponly=True, samesite="Strict", path="/")
    return response
