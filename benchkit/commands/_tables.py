"""Scores as tables: for a terminal, or to paste as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

FORMATS = ("table", "markdown", "latex", "csv")


def scores_rows(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and one row per experiment and metric."""
    header = ["benchmark", "tag", "metric", "value", "95 % interval", "floor", "better"]
    rows = []
    for record in records:
        for name, score in record["scores"].items():
            interval = "-".join(number(v) for v in score["interval"]) if score["interval"] else "n/a"
            cells = [number(score["value"]), interval, number(score["floor"]), score["better"]]
            rows.append([record["benchmark"], record["tag"], name, *cells])
    return header, rows


def number(value: float | None) -> str:
    """Four significant places after the point, `n/a` where undefined."""
    return "n/a" if value is None else f"{value:.4f}"


def notes(record: Mapping[str, Any]) -> list[str]:
    """What a reader must know beside the numbers."""
    data, head = record["data"], record["head"]
    said = [f"{record['benchmark']}/{record['tag']}: {data['n_items']} items, head {head['name']}"]
    if head["log"]:
        said[0] += " (" + ", ".join(f"{k} {v:.4g}" for k, v in head["log"].items()) + ")"
    if data["generated"]:
        said.append("generated images, no photographs")
    if data["skipped"]:
        said.append(f"{len(data['skipped'])} items skipped, listed in record.json")
    if data["duplicates"]["across_splits"] or data["duplicates"]["two_labels"]:
        said.append(
            f"photos in train and test: {data['duplicates']['across_splits']}, "
            f"under two labels: {data['duplicates']['two_labels']}"
        )
    seen = set(record["about"].get("pretrained_on", [])) & set(data["overlaps"])
    if seen:
        said.append(f"the model has seen this data in training ({', '.join(sorted(seen))})")
    undefined = {name: s["undefined"] for name, s in record["scores"].items() if s["undefined"]}
    if undefined:
        said.append("items without a value: " + ", ".join(f"{k} {v}" for k, v in undefined.items()))
    return ["; ".join(said)]


def render(header: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> str:
    """A table as text in one of FORMATS."""
    if style == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([header, *rows])
        return buffer.getvalue()
    if style == "markdown":
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    if style == "latex":
        body = [" & ".join(map(_latex, line)) + r" \\" for line in (header, *rows)]
        return "\n".join([rf"\begin{{tabular}}{{{'l' * len(header)}}}", *body, r"\end{tabular}"])
    return _terminal(header, rows)


def _latex(text: str) -> str:
    return "".join("\\" + c if c in "%&_#$" else c for c in text)


def _terminal(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE)
    for name in header:
        table.add_column(name, justify="right" if name in ("value", "floor") else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: a tag is never read as markup
    console = Console(width=None if sys.stdout.isatty() else 160, file=io.StringIO(), force_terminal=False)
    console.print(table)
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined]
