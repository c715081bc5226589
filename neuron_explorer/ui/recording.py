"""A recording that goes on, seen through snapshots: its spool as it is now, made into a trace."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from neuron_explorer.errors import BadTraceError, NeuronExplorerError
from neuron_explorer.trace.sniff import printable
from neuron_explorer.ui.watch import ENDED, RECORDING, Condition, age


class Snapshot:
    """The last look at a spool. ``target``: the trace that its program will write.

    The spool is read and left alone. The trace of a snapshot lies in a folder of its own
    under the system's temporary folder, until ``close``.
    """

    def __init__(self, spool: Path, target: Path) -> None:
        self.spool = spool
        self.target = target
        self._folder = Path(tempfile.mkdtemp(prefix="neuron-explorer-live-"))
        self.file = self._folder / target.name
        self.ended = False
        self._taken = 0.0
        self._lock = threading.Lock()

    def take(self) -> None:
        """Look at the spool again; once the program has written its trace, that is shown instead.

        Raises BadTraceError where neither is there, or nothing can be read of it yet.
        """
        from neuron_explorer.trace.convert import convert
        from neuron_explorer.trace.output import living_writer

        with self._lock:
            if self._written():
                self.ended = True
                return
            began = time.time()
            fresh = self._folder / f"new-{self.target.name}"
            try:
                convert(self.spool, fresh, keep_spool=True, recovered=living_writer(self.spool) is None)
            except NeuronExplorerError:
                if self._written():  # it ended meanwhile
                    self.ended = True
                    return
                raise
            except (OSError, ValueError, IndexError, KeyError) as error:
                # Files of a spool come and go while the recording ends.
                if self._written():
                    self.ended = True
                    return
                text = f"{printable(self.spool)} cannot be read at this moment ({type(error).__name__}); try again."
                raise BadTraceError(text) from error
            os.replace(fresh, self.file)
            self._taken = began

    def condition(self) -> Condition:
        """How the recording stands to what is shown."""
        from neuron_explorer.trace.output import living_writer

        old = max(0.0, time.time() - self._taken)
        if self._written():
            text = f"The recording has ended. This page shows it as it was {age(old)} ago."
            return Condition(ENDED, text, "Show the whole trace", old)
        if not self.spool.is_dir():
            return Condition(ENDED, f"The recording was removed. This page shows it as it was {age(old)} ago.", "", old)
        if living_writer(self.spool) is not None:
            text = f"Still being recorded. This page shows the recording as it was {age(old)} ago."
            return Condition(RECORDING, text, "Refresh", old)
        text = (
            "The program ended without writing its trace; this is what it left. "
            f"neuron-explorer recover {printable(self.target.name)} keeps it."
        )
        return Condition(ENDED, text, "", old)

    def close(self) -> None:
        """Remove the snapshot's folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _written(self) -> bool:
        try:
            written = os.stat(self.target).st_mtime
        except OSError:
            return False
        # An older file of that name is what the recording will overwrite.
        return not self.spool.is_dir() or written > self._taken > 0
