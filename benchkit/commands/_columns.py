"""The columns of a board as a table: places, scores or differences to a baseline, costs, marks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchkit.compare.numbers import amount, number, probability
from benchkit.compare.numbers import signed as of_difference
from benchkit.errors import printable

if TYPE_CHECKING:
    from benchkit.boards import Board, Row
    from benchkit.compare.differences import Difference

MOST = 200  # letters of a tag
TEXTS = ("", "tag", "model", "head", "marks")  # columns that are no numbers
ARROWS = {"higher": " \N{UPWARDS ARROW}", "lower": " \N{DOWNWARDS ARROW}"}  # which way is better

Column = tuple[str, list[str]]  # header, and a cell for each row


def named(board: Board) -> list[Column]:
    """Place, tag, model and head of each row."""
    rows = board.rows
    columns: list[Column] = [("", [row.place for row in rows])]
    return columns + [
        (name, [printable(getattr(row, name), MOST) for row in rows]) for name in ("tag", "model", "head")
    ]


def scores(board: Board, metrics: Sequence[str], percent: bool) -> list[Column]:
    """The first metric with interval, floor and, where there are any, ceilings; of further metrics the value."""
    name, *others = metrics
    found = [row.scores[name] for row in board.rows]
    ends = [score["interval"] or (None, None) for score in found]
    numbers: list[tuple[str, list[float | None]]] = [
        (titled(name, found[0], percent), [score["value"] for score in found]),
        ("low", [low for low, _ in ends]),
        ("high", [high for _, high in ends]),
        ("floor", [score["floor"] for score in found]),
    ]
    if any(score.get("ceiling") is not None for score in found):
        numbers.append(("ceiling", [score.get("ceiling") for score in found]))
    columns = [(title, [shown(value, found[0], percent) for value in values]) for title, values in numbers]
    for other in others:
        each = [row.scores[other] for row in board.rows]
        columns.append((titled(other, each[0], percent), [shown(score["value"], each[0], percent) for score in each]))
    return columns


def differences(board: Board, metrics: Sequence[str], percent: bool) -> list[Column]:
    """Differences to the baseline, marked where significant; of the first metric with interval and p.

    The row without any is the baseline itself: it has its scores.
    """
    name, *others = metrics
    columns = [_difference(board, name, percent)]
    columns += [(end, [_end(row, name, end, percent) for row in board.rows]) for end in ("low", "high")]
    columns.append(("p", [p_value(row.differences.get(name)) for row in board.rows]))
    return columns + [_difference(board, other, percent) for other in others]


def costs(board: Board) -> list[Column]:
    """Parameters, speed and bytes."""
    rows = board.rows
    return [
        ("params", [amount(row.params) for row in rows]),
        ("images/s", [amount(row.images_per_s) for row in rows]),
        ("features/item", [amount(row.bytes_per_item, "B") for row in rows]),
        ("predictions/item", [amount(row.prediction_bytes, "B") for row in rows]),
    ]


def marks(board: Board, without: Collection[str]) -> list[Column]:
    """Marks of each row but those that are said of the whole board; no column where none is left."""
    told = ["; ".join(printable(mark) for mark in row.marks if mark not in without) for row in board.rows]
    return [("marks", told)] if any(told) else []


def titled(metric: str, score: Mapping[str, Any], percent: bool) -> str:
    """A metric as a header: its unit, and which direction is better."""
    unit = "%" if percent and _is_share(score) else score["unit"]
    return f"{metric}{f' [{unit}]' if unit else ''}{ARROWS.get(score['better'], '')}"


def shown(value: float | None, score: Mapping[str, Any], percent: bool, signed: bool = False) -> str:
    """A number of a metric: four places, or one of a percentage; n/a where undefined."""
    show = of_difference if signed else number
    if value is None or not percent:
        return show(value)
    return show(100 * value, 1) if _is_share(score) else show(value, 2)


def p_value(found: Difference | None) -> str:
    """p after Holm's correction; nothing of the baseline itself."""
    if found is None:
        return ""
    p = found.p if found.adjusted is None else found.adjusted
    return probability(p)


def difference(row: Row, metric: str, percent: bool) -> str:
    """A row's difference to the baseline, with * where it is significant; the baseline's own score."""
    found, score = row.differences.get(metric), row.scores[metric]
    if found is None:
        return shown(score["value"], score, percent)
    return shown(found.value, score, percent, signed=True) + "*" * found.significant


def _difference(board: Board, metric: str, percent: bool) -> Column:
    title = f"difference of {titled(metric, board.rows[0].scores[metric], percent)}"
    return title, [difference(row, metric, percent) for row in board.rows]


def _end(row: Row, metric: str, end: str, percent: bool) -> str:
    """An end of the difference's interval; of the baseline, of its score's."""
    found, score = row.differences.get(metric), row.scores[metric]
    if found is None:
        low, high = score["interval"] or (None, None)
        return shown(low if end == "low" else high, score, percent)
    return shown(getattr(found, end), score, percent, signed=True)


def _is_share(score: Mapping[str, Any]) -> bool:
    """Whether a percentage can be made of a metric: it has no unit, and is no count."""
    return not score["unit"] and score["better"] != "neither"
