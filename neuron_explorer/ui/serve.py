"""Serve the explorer at a loopback address, and print the one URL that opens it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.errors import NeuronExplorerError

if TYPE_CHECKING:
    from neuron_explorer.trace.on_the_fly import Reading
    from neuron_explorer.ui.registry import Registry

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
TRIES: Final = 50
"""Ports after the wanted one that are tried when it is taken."""
THREADS: Final = 8
SILENCE_S: Final = 60
CONNECTIONS: Final = 800
"""Open at once: a browser holds six, and those that say nothing must not lock others out."""


class AddressError(NeuronExplorerError):
    """An address that cannot be listened on."""

    exit_code = 2


def trace_paths(paths: Sequence[Path | str]) -> list[Path]:
    """The files that the arguments stand for, as ``offer.offered`` finds them."""
    from neuron_explorer.ui.offer import offered

    return offered(paths).files


def listen(host: str, port: int, tries: int = TRIES) -> socket.socket:
    """A listening socket on the port, or on the next free one; port 0 takes any.

    Raises AddressError where the address cannot be used.
    """
    if host in ("", "0.0.0.0", "::", "[::]", "*"):
        raise AddressError(
            f"--host {host or '(empty)'} would listen on every network of this machine; name one address"
        )
    host = host.strip("[]")
    last: OSError | None = None
    for candidate in range(port, port + tries) if port else (0,):
        if candidate > 65535:
            break
        try:
            family, kind, proto, _, address = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)[0]
            server = socket.socket(family, kind, proto)
        except OSError as error:
            raise AddressError(f"cannot listen on {host}: {error.strerror or error}") from error
        try:
            if os.name != "nt":
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen(128)
            return server
        except OSError as error:
            server.close()
            last = error
            if error.errno not in _TAKEN:
                break
    said = last.strerror if last is not None and last.strerror else "no free port"
    raise AddressError(f"cannot listen on {host} port {port}: {said}; choose another --host or --port")


def _taken() -> tuple[int, ...]:
    import errno

    return (errno.EADDRINUSE, errno.EACCES, getattr(errno, "WSAEADDRINUSE", errno.EADDRINUSE))


_TAKEN: Final = _taken()


def has_display() -> bool:
    """Whether a browser on this machine can show a page to the user."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"):
        return False
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def announcement(host: str, wanted: int, port: int, token: str, display: bool) -> list[str]:
    """What is printed at start: one URL, and how to reach it from elsewhere."""
    from neuron_explorer.ui.security import host_name

    lines = []
    if wanted and port != wanted:
        lines.append(f"Port {wanted} is taken; using {port}.")
    if host not in LOOPBACK:
        lines.append(f"Warning: {host} can be reached over the network, without encryption; only the token guards it.")
    lines.append(f"Neuron Explorer: http://{host_name(host)}:{port}/?token={token}")
    if not display:
        target = host_name(host) if host not in LOOPBACK else "127.0.0.1"
        tunnel = f"ssh -L {port}:{target}:{port} {socket.gethostname()}"
        lines.append(f"From another machine: {tunnel}   (then open the address there)")
    lines.append("Ctrl-C stops it.")
    return lines


def serve(
    paths: Sequence[Path | str],
    host: str = "127.0.0.1",
    port: int = 8050,
    open_browser: bool | None = False,
    *,
    say: Any = None,
    reading: Reading | None = None,
) -> None:
    """Serve traces until Ctrl-C.

    ``paths``: traces, directories with traces, recordings that have not ended.
    ``open_browser``: None opens it where there is a display. Raises BadTraceError for a file
    that is no trace (each is looked at before anything is served) and AddressError for an
    address that cannot be used. ``reading`` shows the progress of an import, where a file is
    another tool's.
    """
    from neuron_explorer.ui.offer import open_offer

    registry = open_offer(paths, reading)
    try:
        _serve(registry, host, port, open_browser, say or (lambda text: print(text, flush=True)))
    finally:
        registry.close()


def _serve(registry: Registry, host: str, port: int, open_browser: bool | None, tell: Callable[[str], Any]) -> None:
    from neuron_explorer.ui.security import host_name, new_token

    listener = listen(host, port)
    bound = int(listener.getsockname()[1])
    token = new_token()
    for line in [*registry.notes, *announcement(host, port, bound, token, has_display())]:
        tell(line)
    import logging

    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a busy moment is no news

    from neuron_explorer.ui.app import create_app, warm

    hosts = () if host in LOOPBACK else (host,)
    app = create_app((), token=token, port=bound, hosts=hosts, registry=registry)
    server = http_server(app.server, listener)
    warm(registry)
    if open_browser if open_browser is not None else has_display():
        _open(f"http://{host_name(host)}:{bound}/?token={token}")
    _end_on_sigterm()
    try:
        server.run()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
        listener.close()


def http_server(wsgi: Any, listener: socket.socket, silence_s: int = SILENCE_S) -> Any:
    """The server of an app on a listening socket; ``run()`` and ``close()`` are its.

    A connection is closed after ``silence_s`` without a word, or without the rest of its request.
    """
    from waitress.server import create_server

    from neuron_explorer.ui.channel import WholeRequestChannel

    server = create_server(
        wsgi, sockets=[listener], threads=THREADS, ident=None, channel_timeout=silence_s,
        cleanup_interval=max(1, silence_s // 6), connection_limit=CONNECTIONS, asyncore_use_poll=True, backlog=256,
        max_request_body_size=1 << 20, max_request_header_size=1 << 16,
    )  # fmt: skip
    server.channel_class = WholeRequestChannel
    return server


def _end_on_sigterm() -> None:
    """Let SIGTERM end the server as Ctrl-C does: snapshots of recordings are removed then."""
    import signal
    import threading

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _open(url: str) -> None:
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
