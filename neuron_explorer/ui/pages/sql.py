"""SQL: one SELECT over the trace, run in a process of its own with limits.

The address may hold a query (``sql=``), which fills the editor and never runs by itself: a link
from somebody else must not start work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dash import ClientsideFunction, Input, Output, State, dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.sql_examples import EXAMPLES, Example
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.sql_process import LONGEST_STATEMENT, Answer, Limits, cancel, run
from neuron_explorer.ui.components import grid as g
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.sql_help import columns_card, examples_card
from neuron_explorer.ui.components.sql_result import GRID, columns_and_rows
from neuron_explorer.ui.page import Page, Search, trace_id_of

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

LIMITS: Final = Limits()
_LONGEST_KEY: Final = 64
_STATES: Final = {"cancelled": "Cancelled", "timeout": "Out of time", "busy": "Busy"}


@dataclass(frozen=True)
class SqlData:
    """What the page starts with: the query in the editor ("" for the browser's draft), and the examples."""

    sql: str
    examples: tuple[Example, ...]
    limits: Limits


def data(trace: Trace, search: Search) -> SqlData:
    """The page's data: nothing is run."""
    return SqlData(search.get("sql", "")[:LONGEST_STATEMENT], EXAMPLES, LIMITS)


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    return html.Div(
        [
            html.H1("SQL", className="visually-hidden"),
            html.Div(
                [
                    _editor(d, trace_id),
                    html.Div(
                        html.Section(html.P("Run a query to see its rows here.", className="empty"), className="card"),
                        id="sql-result", className="sql-result",
                    ),
                ],
                className="sql-main",
            ),
            html.Div([examples_card(d.examples), columns_card()], className="sql-side"),
            dcc.Store(id="sql-request"),
            dcc.Store(id="sql-done"),
            dcc.Store(id="sql-cancel"),
            dcc.Store(id="sql-cancelled"),
            dcc.Store(id="sql-shown"),
        ],
        className="page page-fill sql-page",
    )  # fmt: skip


def _editor(d: SqlData, trace_id: str) -> html.Section:
    limits = d.limits
    return card(
        "Query",
        html.Div(
            id="sql-editor",
            className="sql-editor",
            **{
                "data-sql": d.sql, "data-sql-default": d.examples[0].sql, "data-trace": trace_id,
                "data-longest": str(LONGEST_STATEMENT),
            },
        ),
        html.Div(
            [
                html.Button("Run", id="sql-run", type="button", className="button button-main",
                            title="Run the query (Ctrl+Enter)"),
                html.Button("Cancel", id="sql-stop", type="button", className="button", disabled=True),
                html.Kbd("Ctrl+Enter", className="sql-key"),
                html.Span(id="sql-status", className="sql-status", role="status"),
                html.Div(
                    f"One SELECT; at most {limits.seconds:g} s, {q.count(limits.rows)} rows, "
                    f"{limits.memory >> 20:,} MB.",
                    className="toolbar-end muted sql-limits",
                ),
            ],
            className="toolbar sql-toolbar",
        ),
        extra="sql-card",
    )  # fmt: skip


def result_view(answer: Answer, sql: str, trace_id: str) -> html.Section:
    """The rows, or in words why there are none."""
    if answer.state != "done":
        return _trouble(answer, sql)
    if not answer.columns:
        return card("Result", html.P("The query has no columns.", className="empty"))
    columns, rows = columns_and_rows(answer, trace_id)
    title = f"{q.plural(len(answer.rows), 'row')}, {q.plural(len(answer.columns), 'column')} in {answer.seconds:.2f} s"
    if answer.more:
        title = f"The first {title}"
    return html.Section(
        [
            html.Div(
                [html.H2(title, className="card-title"),
                 html.Div([g.csv_button(GRID, "query"), g.markdown_button(GRID)], className="toolbar-end")],
                className="card-head sql-result-head",
            ),
            html.Div(g.grid(GRID, columns, rows), className="grid-box"),
            *([note(*_notes(answer))] if _notes(answer) else []),
        ],
        className="card grid-card grid-card-short" if g.is_short(rows) else "card grid-card",
    )  # fmt: skip


def _notes(answer: Answer) -> list[str]:
    said = []
    if answer.by_size:
        said.append(f"There are more rows: the answer ends at {LIMITS.size >> 20} MB. ")
    elif answer.more:
        said.append(f"There are more rows than the {q.count(LIMITS.rows)} shown: group them, or ask for fewer. ")
    if answer.cut:
        said.append(f"{q.plural(answer.cut, 'long value')} cut at {q.count(LIMITS.cell)} characters. ")
    if answer.hidden_columns:
        said.append(f"{q.plural(answer.hidden_columns, 'further column')} not shown. ")
    if not answer.rows:
        said.append("No row fits the query. ")
    return said


def _trouble(answer: Answer, sql: str) -> html.Section:
    title = _STATES.get(answer.state, "The query did not run")
    lines = answer.message.splitlines() or [""]
    items: list[Any] = [html.P(plain(lines[0], 1000), className="sql-error")]
    if answer.position is not None:
        items.append(_place(sql, answer.position))
    items += [html.P(plain(line, 1000), className="note") for line in lines[1:] if line.strip()]
    return card(title, *items, extra="sql-trouble")


def _place(sql: str, position: int) -> html.Pre:
    """The line of the query with a mark under the place that is meant."""
    line, column = line_and_column(sql, position)
    text = sql.split("\n")[line - 1]
    start = max(0, column - 1 - 60)
    shown = plain(text[start : start + 160], 200)
    mark = " " * (len(plain(text[start : column - 1], 400)) if column > 1 else 0) + "^"
    return html.Pre(f"{shown}\n{mark} line {line}, column {column}", className="sql-place")


def line_and_column(sql: str, position: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character of the query."""
    before = sql[: max(0, position)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def register(app: dash.Dash, registry: Registry) -> None:
    """The page's callbacks: run, cancel, and telling the editor that the answer is there."""

    @app.callback(
        Output("sql-result", "children"),
        Output("sql-done", "data"),
        Input("sql-request", "data"),
        State("url", "pathname"),
        prevent_initial_call=True,
    )
    def run_query(request: Any, pathname: str | None) -> tuple[Any, Any]:
        key, sql = _asked(request)
        trace_id = trace_id_of(pathname)
        try:
            trace = registry.get(trace_id)
        except NeuronExplorerError as error:
            answer = Answer("error", str(error))
        else:
            answer = Answer("error", "No such trace.") if trace is None else run(trace, sql, limits=LIMITS, key=key)
        done = {"id": key, "state": answer.state, "position": answer.position, "rows": len(answer.rows)}
        return result_view(answer, sql, trace_id), done

    @app.callback(
        Output("sql-cancelled", "data"),
        Input("sql-cancel", "data"),
        prevent_initial_call=True,
    )
    def stop_query(request: Any) -> bool:
        return cancel(_asked(request)[0])

    app.clientside_callback(
        ClientsideFunction("nxSql", "done"),
        Output("sql-shown", "data"),
        Input("sql-done", "data"),
        prevent_initial_call=True,
    )


def _asked(request: Any) -> tuple[str, str]:
    """Key and statement of a request; anything odd is an empty one."""
    if not isinstance(request, dict):
        return "", ""
    key, sql = request.get("id"), request.get("sql")
    usable = isinstance(key, str) and len(key) <= _LONGEST_KEY
    return (key if usable else ""), (sql[: LONGEST_STATEMENT + 1] if isinstance(sql, str) else "")


PAGE = Page(path="/sql", name="SQL", section="Data", layout=layout, data=data, register=register, wide=True)
