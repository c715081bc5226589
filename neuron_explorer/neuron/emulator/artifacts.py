"""The cache of compiled artifacts: hits, misses and sizes, in memory and on disk.

An artifact stands for what the device would compile: one per operator and shapes in eager
mode, one per graph under ``torch.compile``. It holds a description, not code, and its size is
that of the description.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass
class Entry:
    """One artifact; times in milliseconds, sizes in bytes."""

    key: str
    op: str
    signature: str
    size_bytes: int
    hits: int = 0
    launches: int = 0
    compile_ms: float = 0.0
    from_disk: bool = False


class ArtifactCache:
    """Eager artifacts come from the device, those of graphs from the compile backend."""

    def __init__(self, native: ModuleType, folder: Path | None) -> None:
        self._native = native
        self._folder = folder
        self._lock = threading.Lock()
        self._graphs: dict[str, Entry] = {}
        self._on_disk = _read_keys(folder)
        self._written: set[str] = set(self._on_disk)
        native.set_known_artifacts(self._on_disk)
        if folder is not None:
            atexit.register(self.all)  # what eager mode made is written when somebody looks

    def graph(self, key: str, description: str, compile_ms: float) -> bool:
        """Notes the compilation of a graph. True when the artifact existed, here or on disk."""
        with self._lock:
            entry = self._graphs.get(key)
            if entry is not None:
                return True
            known = key in self._on_disk
            self._graphs[key] = Entry(
                key, "graph", description, len(description.encode()), compile_ms=compile_ms, from_disk=known
            )
        self._write(key, description)
        return known

    def launched(self, key: str) -> None:
        """Notes one launch of a compiled graph. The first one is no hit."""
        with self._lock:
            entry = self._graphs.get(key)
            if entry is not None:
                entry.launches += 1
                entry.hits += entry.launches > 1

    def all(self) -> list[Entry]:
        """Every artifact of this process."""
        eager = []
        for key, op, signature, hits, from_disk in self._native.artifacts():
            description = f"{op} {signature}"
            eager.append(Entry(key, op, signature, len(description.encode()), hits, hits + 1, from_disk=from_disk))
            self._write(key, description)
        with self._lock:
            entries = [*eager, *self._graphs.values()]
        return sorted(entries, key=lambda entry: (entry.op, entry.signature))

    def keys(self) -> list[str]:
        return [entry.key for entry in self.all()]

    def entries(self) -> list[dict[str, Any]]:
        """As TorchNeuron lists them."""
        return [
            {
                "cache_key": e.key,
                "op": e.op,
                "signature": e.signature,
                "neff_size_bytes": e.size_bytes,
                "access_count": e.launches,
                "compilation_time_ms": e.compile_ms,
            }
            for e in self.all()
        ]

    def stats(self) -> dict[str, Any]:
        """As TorchNeuron counts them."""
        entries = self.all()
        hits = sum(e.hits for e in entries)
        misses = len(entries)
        persistent = sum(e.from_disk for e in entries)
        return {
            "total_entries": len(entries),
            "in_memory_hits": hits,
            "in_memory_misses": misses,
            "persistent_hits": persistent,
            "persistent_misses": misses - persistent if self._folder else 0,
            "cache_hits": hits + persistent,
            "cache_misses": misses - persistent,
            "hit_rate": hits / (hits + misses) if hits + misses else 0.0,
            "memory_usage_bytes": sum(e.size_bytes for e in entries),
            "total_compilation_time_ms": sum(e.compile_ms for e in entries),
            "total_compilations": misses - persistent,
            "evictions_performed": 0,
            "max_cache_size_bytes": 0,  # no limit
            "max_cache_entries": 0,
            "memory_utilization_ratio": 0.0,
        }

    def _write(self, key: str, description: str) -> None:
        if self._folder is None or key in self._written:
            return
        self._written.add(key)
        with contextlib.suppress(OSError):
            path = self._folder / key[:2] / f"{key}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".tmp{os.getpid()}")
            temporary.write_text(json.dumps({"emulated": True, "artifact": description}), encoding="utf-8")
            os.replace(temporary, path)


def _read_keys(folder: Path | None) -> frozenset[str]:
    if folder is None or not folder.is_dir():
        return frozenset()
    return frozenset(path.stem for path in folder.glob("*/*.json"))
