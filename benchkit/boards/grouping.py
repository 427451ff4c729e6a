"""Scored tags of one benchmark by the protocol they follow: a board for each that some share; the others apart, and why."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchkit.boards.board import Board, Row
from benchkit.boards.rows import make_row
from benchkit.boards.selection import Instance
from benchkit.eval.base import LEVELS
from benchkit.experiments.experiment import Experiment, ranked_by
from benchkit.provenance.identity import identity_hash, unequal_fields

HASH = 64  # letters of a sha256
SHORT = 8  # letters of it that tell two apart

Protocol = Mapping[str, Any]


def grouped(instance: Instance, experiments: Sequence[Experiment], apart: Mapping[str, str]) -> list[Board]:
    """Boards of one benchmark, those with most rows first; of equal ones the one whose first tag comes first.

    A protocol that only one tag follows has no board, unless all are so: then the first has one. Where nothing is scored there
    is a board without rows that says why; where there is nothing at all, none.
    A family may say which fields of the protocol have to agree (`Benchmark.comparable`); else all do.

    Args:
        instance: which benchmark.
        experiments: scored tags of it, in name order.
        apart: tag -> why it cannot be ranked, of others.
    """
    groups: dict[str, list[Experiment]] = defaultdict(list)
    for each in experiments:
        groups[identity_hash(ranked_by(each.record))].append(each)
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    shown = [group for place, group in enumerate(ordered) if len(group) > 1 or place == 0]
    protocols = [ranked_by(group[0].record) for group in shown]
    differing = sorted({field for other in protocols[1:] for field in unequal_fields(protocols[0], other)})
    boards = [_empty(instance, number) for number in range(1, 1 + (len(shown) or bool(apart)))]
    for number, (group, protocol) in enumerate(zip(shown, protocols, strict=True)):
        values = {field: valued(protocol, field) for field in differing}
        boards[number] = _filled(boards[number], group, values)
    alone = [group[0] for group in ordered[len(shown) :]]
    return _with_apart(boards, alone, protocols, apart)


def _empty(instance: Instance, number: int) -> Board:
    return Board(instance.name, instance.family, LEVELS[instance.level], number, "", "", "", {}, (), {})


def _filled(board: Board, group: Sequence[Experiment], protocol: Mapping[str, Any]) -> Board:
    metric, score = next(iter(group[0].record["scores"].items()))
    better, unit = score["better"], score["unit"]
    rows = tuple(sorted((make_row(each, metric) for each in group), key=lambda row: _order(row, better)))
    return dataclasses.replace(board, metric=metric, better=better, unit=unit, protocol=protocol, rows=rows)


def _order(row: Row, better: str) -> tuple[float, str]:
    """Ties are in the order of tags; a row without a value is last."""
    if row.value is None:
        return float("inf"), row.tag
    return (row.value if better == "lower" else -row.value), row.tag


def _with_apart(
    boards: list[Board], alone: Sequence[Experiment], protocols: Sequence[Protocol], apart: Mapping[str, str]
) -> list[Board]:
    """The boards, the last with everything that is on none."""
    if not boards:
        return []
    why = {**{each.tag: _kept_apart(ranked_by(each.record), protocols) for each in alone}, **apart}
    rows = tuple(make_row(each, next(iter(each.record["scores"]))) for each in alone)  # eval settings may name metrics
    return [*boards[:-1], dataclasses.replace(boards[-1], apart=why, alone=rows)]


def _kept_apart(protocol: Protocol, boards: Sequence[Protocol]) -> str:
    """In what a protocol differs from the board's that is nearest to it."""
    odd = [unequal_fields(board, protocol) for board in boards]
    near = min(range(len(boards)), key=lambda number: len(odd[number]))
    fields = [f"{f} ({told(valued(protocol, f))}, not {told(valued(boards[near], f))})" for f in odd[near]]
    of = f" than board {near + 1}" if len(boards) > 1 else ""
    return f"another protocol{of}: {', '.join(fields)}"


def valued(protocol: Protocol, field: str) -> Any:
    """The value of a field as `unequal_fields` names it (section.key); None where there is none."""
    if field in protocol:
        return protocol[field]
    section, _, below = field.partition(".")
    inner = protocol.get(section)
    return valued(inner, below) if below and isinstance(inner, Mapping) else None


def told(value: Any) -> str:
    """A value of a protocol in a few letters: what is a sha256 by its first ones."""
    if value is None:
        return "none"
    if isinstance(value, str) and len(value) == HASH:
        return value[:SHORT]
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{len(value)} of them"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(told, value)) + "]"
    return str(value)
