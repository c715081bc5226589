"""Text and tables as GitHub-flavoured Markdown, safe for names from a trace."""

from __future__ import annotations

from neuron_explorer.analysis.render_summary import _code, _md, _md_table

escaped, code, markdown_table = _md, _code, _md_table
