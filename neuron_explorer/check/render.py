"""A result in each of its forms: text, JSON, JUnit XML, Markdown, and annotations for GitHub."""

from neuron_explorer.check.headline import headline, tool_line
from neuron_explorer.check.render_github import MOST_ANNOTATIONS, github_annotations
from neuron_explorer.check.render_json import JSON_VERSION, render_json
from neuron_explorer.check.render_junit import render_junit
from neuron_explorer.check.render_markdown import MOST_MARKDOWN, render_markdown
from neuron_explorer.check.render_text import MOST_SHOWN, render_text

__all__ = [
    "JSON_VERSION", "MOST_ANNOTATIONS", "MOST_MARKDOWN", "MOST_SHOWN", "github_annotations", "headline", "render_json",
    "render_junit", "render_markdown", "render_text", "tool_line",
]  # fmt: skip
