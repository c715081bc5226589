"""``python -m neuron_explorer`` is the command line."""

from __future__ import annotations

from neuron_explorer.cli.main import run

if __name__ == "__main__":
    run()
