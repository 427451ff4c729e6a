"""Scores as tables: for a terminal, or to paste as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from benchkit.compare.numbers import digits, number
from benchkit.errors import printable, quoted, some
from benchkit.experiments.marks import beats_floor, seen_data
from benchkit.provenance.identity import unequal_fields

SOME = 5  # names that a line shows
FORMATS = ("table", "markdown", "latex", "csv")
_NUMERIC = ("value", "low", "high", "floor", "ceiling")
_NEGATIVE = re.compile(r"-[0-9.]+(e[+-]?[0-9]+)?[*† ]*")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}  # other signs in LaTeX's own encoding
_LATEX |= {c: "\\" + c for c in "%&_#${}"} | {"†": r"\dag{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}


def scores_rows(records: Sequence[Mapping[str, Any]], style: str = "table") -> tuple[list[str], list[list[str]]]:
    """Header and one row per experiment and metric; CSV has all digits, and nothing where a number is undefined.

    There is a column of ceilings where any score has one.
    """
    show = digits if style == "csv" else number
    ceilings = any(score.get("ceiling") is not None for record in records for score in record["scores"].values())
    header = ["benchmark", "tag", "metric", "value", "low", "high", "floor", *["ceiling"] * ceilings, "better"]
    rows = []
    for record in records:
        for name, score in record["scores"].items():
            numbers = [score["value"], *(score["interval"] or (None, None)), score["floor"]]
            numbers += [score.get("ceiling")] if ceilings else []
            texts = map(printable, (record["benchmark"], record["tag"], name))
            rows.append([*texts, *map(show, numbers), score["better"]])
    return header, rows


def notes(record: Mapping[str, Any]) -> str:
    """What a reader must know beside the numbers, in one line."""
    data, head = record["data"], record["head"]
    log = f" ({', '.join(f'{k} {v:.4g}' for k, v in head['log'].items())})" if head["log"] else ""
    said = [f"{record['benchmark']}/{record['tag']}: {data['n_items']} items, head {head['name']}{log}"]
    said += [*_about_head(record), *_about_data(record), *_about_scores(record)]
    return printable("; ".join([*said, "low and high: 95 % interval"]))


def apart(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each benchmark in a table, which of its experiments follow another protocol than the first, and in what."""

    from benchkit.experiments.experiment import ranked_by

    said = []
    for benchmark in dict.fromkeys(r["benchmark"] for r in records):
        first, *others = [r for r in records if r["benchmark"] == benchmark]
        for other in others:
            fields = unequal_fields(ranked_by(first), ranked_by(other))
            if fields:
                named = ", ".join(fields)
                tags = f"{first['tag']} and {other['tag']}"
                said.append(printable(f"{benchmark}: {tags} follow different protocols ({named}): not to be ranked"))
    return said


def _about_head(record: Mapping[str, Any]) -> list[str]:
    """What its training says about itself: that it collapsed, or did not come to rest."""
    log, settings = record["head"]["log"], record["conf"]["model"]["head"]
    if log.get("collapsed"):
        return ["the head's uncertainty loss collapsed to chance: use model.head.loss=angular"]
    if log.get("converged", 1) == 0:
        mend = ": more model.head.epochs or another model.head.lr" if "epochs" in settings else ""
        left = f" ({log['still_falling']:.0%} of the fall of its loss may be left)" if "still_falling" in log else ""
        return [f"the head did not converge{left}{mend}"]
    return []


def _about_data(record: Mapping[str, Any]) -> list[str]:
    data, said = record["data"], []
    if data["generated"]:
        said.append("generated images, no photographs")
    if data.get("truth", {}).get("normals_from"):
        said.append(f"true normals from {data['truth']['normals_from']}")
    if data["skipped"]:
        said.append(f"{len(data['skipped'])} items skipped ({_some(data['skipped'])})")
    if data["trained_on_evaluated"]:
        said.append("the head learned from the very items it is scored on: no generalisation is measured")
    if data["untrained_classes"]:
        said.append(
            f"{len(data['untrained_classes'])} classes never occur in train ({_some(data['untrained_classes'])})"
        )
    across, two = data["duplicates"]["across_splits"], data["duplicates"]["two_labels"]
    if across or two:
        said.append(f"photos in train and test: {across}, under two labels: {two}")
    if seen := seen_data(record):
        said.append(f"the model's training overlaps with this data ({_some(seen)})")
    return said


def _about_scores(record: Mapping[str, Any]) -> list[str]:
    scores = record["scores"].items()  # a score without a value at all is n/a in the table
    undefined = {name: s["undefined"] for name, s in scores if s["undefined"] and s["value"] is not None}
    said = ["items without a value: " + ", ".join(f"{k} {v}" for k, v in undefined.items())] if undefined else []
    name, headline = next(iter(record["scores"].items()))
    if not beats_floor(headline):
        said.append(f"{name} does not beat its floor: an answer that looks at no image scores as well")
    return [*said, *without_flagged(record)]


def without_flagged(record: Mapping[str, Any]) -> list[str]:
    """The headline without the items that `benchkit doctor --data` flagged; nothing where it flagged none."""
    flagged = record.get("flagged") or {}
    count, without = len(flagged.get("items", ())), flagged.get("scores_without")
    if not count or not without:
        return []
    name, value = next(iter(without.items()))
    return [f"without {count} flagged {'item' if count == 1 else 'items'}: {name} {number(value)}"]


def _some(names: Iterable[str]) -> str:
    """The first few names, printable, and how many more; all of them are in record.json."""
    return some(map(quoted, names), SOME)


def render(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: str,
    numeric: Collection[str] = _NUMERIC,
    bold: Collection[tuple[int, int]] = (),
    rules: bool = False,
) -> str:
    """A table as text in one of FORMATS.

    Args:
        header, rows: cells as they read; they are escaped here.
        style: of FORMATS.
        numeric: columns of numbers, by header: never cut, and on the right in terminals.
        bold: (row, column) of cells that stand out in Markdown and LaTeX.
        rules: LaTeX with the rules of the package booktabs, and columns of numbers on the right.
    """
    if style == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(
            [[_no_formula(cell) for cell in row] for row in (header, *rows)]
        )
        return buffer.getvalue().rstrip("\n")
    if style == "markdown":
        lines = [[_markdown(cell) for cell in header], *_bold(rows, bold, _markdown, "**{}**")]
        lines.insert(1, ["---"] * len(header))
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    if style == "latex":
        lines = [[_latex(cell) for cell in header], *_bold(rows, bold, _latex, r"\textbf{{{}}}")]
        return _tabular(
            [" & ".join(line) + r" \\" for line in lines], [rules and name in numeric for name in header], rules
        )
    return _terminal(header, rows, numeric)


def remark(line: str, style: str) -> str:
    """A line that stands beside a table in one of FORMATS: escaped in Markdown, a comment in LaTeX."""
    forms: Mapping[str, Callable[[str], str]] = {
        "markdown": lambda text: f"{_markdown(text)}\n",
        "latex": "% {}".format,
    }
    return forms.get(style, str)(line)


def _bold(
    rows: Sequence[Sequence[str]], bold: Collection[tuple[int, int]], escape: Callable[[str], str], form: str
) -> list[list[str]]:
    return [
        [form.format(escape(cell)) if (number, place) in bold else escape(cell) for place, cell in enumerate(row)]
        for number, row in enumerate(rows)
    ]


def _tabular(lines: Sequence[str], right: Sequence[bool], rules: bool) -> str:
    header, *body = lines
    if rules:
        header, body = "\n".join([r"\toprule", header, r"\midrule"]), [*body, r"\bottomrule"]
    columns = "".join("r" if each else "l" for each in right)
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", header, *body, r"\end{tabular}"])


def _no_formula(cell: str) -> str:
    """A cell of CSV that no spreadsheet runs: a name that begins as a formula does gets an apostrophe, a number nothing."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(c, c) for c in text)
    return f"$-${escaped[1:]}" if _NEGATIVE.fullmatch(text) else escaped  # a hyphen is no minus


def _markdown(text: str) -> str:
    return "".join("\\" + c if c in "\\|*`<[]" else c for c in text)


def _terminal(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Collection[str]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE)
    for place, name in enumerate(header):
        widest = max(len(line[place]) for line in (header, *rows))
        least = widest if name in numeric else min(widest, 8)  # numbers are never cut; names go on in the next line
        side: Any = "right" if name in numeric else "left"
        table.add_column(Text(name), justify=side, no_wrap=name in numeric, min_width=least, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: neither tags nor units in brackets are markup
    width = None if sys.stdout.isatty() else 100 + sum(max(map(len, line)) for line in zip(header, *rows, strict=True))
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(table)
    return console.file.getvalue().rstrip()  # type: ignore[attr-defined]
