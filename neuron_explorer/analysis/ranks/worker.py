"""A process that reduces traces: a line of JSON [trace, target] in, a line of JSON "" or the reason out."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Until there is no more line."""
    from neuron_explorer.analysis.ranks.keeping import reduce_to
    from neuron_explorer.errors import NeuronExplorerError

    answers, sys.stdout = sys.stdout, sys.stderr  # nothing else may write among the answers
    for line in sys.stdin:
        path, target = json.loads(line)
        try:
            reduce_to(Path(path), Path(target))
            said = ""
        except (NeuronExplorerError, OSError) as error:
            said = str(error) or type(error).__name__
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
