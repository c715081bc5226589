"""What a page holds, looked through as data."""

from __future__ import annotations

import plotly.io.json


def flat(component) -> str:
    """The component and all in it as JSON."""
    return plotly.io.json.to_json_plotly(component)


def hrefs(value):
    """Every address in parsed JSON."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "href" and isinstance(inner, str):
                yield inner
            else:
                yield from hrefs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from hrefs(inner)
