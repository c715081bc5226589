# Runs at the start of every Python that a recorded program starts, of any version:
# nothing here may fail or be slow, and it must leave no trace where it has nothing to do.
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _run_the_hidden_one():
    """The program's own sitecustomize, which this file hides."""
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != _here]
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


def _record():
    package_root = os.path.dirname(os.path.dirname(os.path.dirname(_here)))
    added = package_root not in sys.path
    if added:
        sys.path.append(package_root)
    try:
        from neuron_explorer.record.children import start_in_child

        start_in_child()
    finally:
        if added:
            sys.path.remove(package_root)


if (
    "NEURON_EXPLORER_EMULATE" in os.environ
    or ("NEURON_EXPLORER_RANKS" in os.environ and "RANK" in os.environ)
    or (
        "NEURON_EXPLORER_SPOOL" in os.environ
        and any(
            word == "--multiprocessing-fork" or word.startswith("from multiprocessing.forkserver import main")
            for word in getattr(sys, "orig_argv", [])
        )
    )
):
    try:
        _record()
    except Exception as error:
        sys.stderr.write("neuron-explorer: this process is not recorded: %s\n" % (error,))

_run_the_hidden_one()
