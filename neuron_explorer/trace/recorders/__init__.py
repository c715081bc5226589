"""The sources of events: each module here owns one."""

from __future__ import annotations
