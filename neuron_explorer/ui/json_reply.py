"""JSON as the answer of an endpoint. ``security`` adds the headers that every answer has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import flask


def json_reply(body: dict[str, Any], status: int = 200) -> flask.Response:
    """The answer, without blanks."""
    import flask

    return flask.Response(json.dumps(body, separators=(",", ":")), status, mimetype="application/json")
