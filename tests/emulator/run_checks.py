"""Runs the checks of one file on the emulated device and prints a line for each."""

from __future__ import annotations

import json
import runpy
import sys
import traceback
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    from neuron_explorer.neuron import emulator

    emulator.enable()
    checks = runpy.run_path(sys.argv[1], run_name="checks")
    for name, check in checks.items():
        if not name.startswith("check_"):
            continue
        try:
            check()
            problem = ""
        except Exception:
            problem = traceback.format_exc(limit=-6)
        print("CHECK " + json.dumps([name, problem]), flush=True)


if __name__ == "__main__":
    main()
