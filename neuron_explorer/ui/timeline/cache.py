"""A cache bounded by bytes; the same missing value is computed once, however many ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Flight(Generic[V]):
    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: V | None = None
        self.error: BaseException | None = None


class ByteCache(Generic[V]):
    """Least recently used values up to ``limit`` bytes, as ``size`` counts them."""

    def __init__(self, limit: int, size: Callable[[V], int]) -> None:
        self._limit = limit
        self._size = size
        self._values: OrderedDict[Hashable, V] = OrderedDict()
        self._flights: dict[Hashable, _Flight[V]] = {}
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of ``key``, computed now if it is not there. An error is not remembered."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            flight = self._flights.get(key)
            mine = flight is None
            if flight is None:
                flight = self._flights[key] = _Flight()
        if not mine:
            flight.done.wait()
            if flight.error is not None:
                raise flight.error
            return flight.value  # type: ignore[return-value]
        try:
            flight.value = compute()
        except BaseException as error:
            flight.error = error
            raise
        else:
            self._keep(key, flight.value)
            return flight.value
        finally:
            with self._lock:
                del self._flights[key]
            flight.done.set()

    def _keep(self, key: Hashable, value: V) -> None:
        size = self._size(value)
        if size > self._limit:
            return
        with self._lock:
            self._values[key] = value
            self.bytes += size
            while self.bytes > self._limit:
                _, old = self._values.popitem(last=False)
                self.bytes -= self._size(old)
