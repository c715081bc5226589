"""Connections that send their request a byte at a time are closed as silent ones are."""

from __future__ import annotations

import time
from typing import Any

from waitress.channel import HTTPChannel


class WholeRequestChannel(HTTPChannel):
    """A connection whose request has to be there within the time that it may say nothing.

    The server closes what has had no activity for so long, and any byte is activity: a client
    that sends one now and then would keep its place for ever. Here the clock of a request
    starts with its first byte and is not set back before its last one.
    """

    _partial: Any = None
    _since = 0.0

    def received(self, data: bytes) -> bool:
        """Take what came; True where a request is whole."""
        whole = bool(super().received(data))
        if self.request is not self._partial:
            self._partial, self._since = self.request, time.time()
        if self._partial is not None:
            self.last_activity = self._since
        return whole
