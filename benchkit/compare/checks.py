"""What has to hold before experiments are compared: one protocol, and the same items with the same truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchkit.compare.aligned import Aligned
from benchkit.errors import RunError, UsageError, printable, quoted, some
from benchkit.experiments.experiment import Experiment, ranked_by, unequal

BY_ITEMS = ("dataset_id", "skipped", "targets")  # fields of the protocol that differ where other items were scored
MAY_DIFFER = (
    "head",
    "layers",
    "pool",
    "norm",
    "seed",
    "train_id",
)  # what --across takes: how features are read and learned from
TARGETS = "targets.h5"
LONG = 40  # letters of a value that a message shows
NAMES = 3  # items that a message names


def refuse_unequal(aligned: Aligned, allow_missing: bool, across: Sequence[str] = ()) -> list[str]:
    """Refuse experiments whose scores do not mean the same.

    Args:
        aligned: the experiments.
        allow_missing: compare the common items where the sets differ, if their truth is the same.
        across: fields of the protocol that may differ, since the difference they make is what is asked for (MAY_DIFFER).

    Returns:
        What differs as `across` allows, with both values, for each tag that does.

    Raises:
        UsageError: a field that `across` cannot take; else names the fields of the protocol that differ, or the items that
            only some have.
    """
    for field in (each for each in across if each not in MAY_DIFFER):
        raise UsageError(f"--across {printable(field, LONG)}: what may differ is {', '.join(MAY_DIFFER)}.")
    first, *others = aligned.experiments
    allowed = []
    for other in others:
        same_items = set(first.names) == set(other.names)
        fields = [f for f in unequal(first, other) if same_items or f not in BY_ITEMS]
        odd = [f for f in fields if _part(f) not in across]
        if odd:
            raise UsageError(_protocols_said(first, other, odd))
        allowed += [f"{printable(other.tag)}: {_named(first, other, fields)}"] if fields else []
    if aligned.complete:
        return allowed
    if not allow_missing:
        raise UsageError(
            f"not all have the same items: {items_said(aligned)}. Export them with the same data, or compare the "
            f"{len(aligned.names)} common ones alone with --allow-missing."
        )
    for other in others:
        if fields := _unequal_truth(first, other, set(aligned.names)):
            raise UsageError(
                f"{printable(first.tag)} and {printable(other.tag)}: the truth of their common items differs "
                f"({', '.join(fields)} in {TARGETS}), so their scores do not mean the same."
            )
    return allowed


def items_said(aligned: Aligned) -> str:
    """Which tag has how many items that not all have, and the names of some."""
    said = []
    for experiment, names in zip(aligned.experiments, aligned.alone, strict=True):
        if names:
            shown = some((quoted(name, 80) for name in names), NAMES)
            said.append(f"{quoted(experiment.tag)} has {len(names)} that not all have ({shown})")
    return "; ".join(said)


def _protocols_said(first: Experiment, other: Experiment, fields: Sequence[str]) -> str:
    return (
        f"{printable(first.tag)} and {printable(other.tag)} follow different protocols of {first.benchmark}: they differ "
        f"in {_named(first, other, fields)}. Scores that were made differently are not compared: export or evaluate one as the "
        f"other{_across_said(fields)}."
    )


def _named(first: Experiment, other: Experiment, fields: Sequence[str]) -> str:
    """Fields with the value of either."""
    sides = ranked_by(first.record), ranked_by(other.record)
    return ", ".join(f"{field} ({_value(sides[0], field)}, {_value(sides[1], field)})" for field in fields)


def _across_said(fields: Sequence[str]) -> str:
    parts = list(dict.fromkeys(map(_part, fields)))
    return f"; or, if that is what you ask for, say --across {' '.join(parts)}" if {*parts} <= {*MAY_DIFFER} else ""


def _part(field: str) -> str:
    """What `across` calls a field of the protocol: settings and facts of the head are `head`."""
    return field.split(".")[0].removesuffix("_facts")


def _value(protocol: Mapping[str, Any], field: str) -> str:
    """What a protocol says of a field, which is named section.key below a section."""
    value: Any = protocol
    for key in [field] if field in protocol else field.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return printable(value, LONG)


def _unequal_truth(first: Experiment, other: Experiment, names: set[str]) -> list[str]:
    """Columns of targets.h5 in which common items differ, by their checksums; `meta` where what holds for all does."""
    one, two = (_truth(each, names) for each in (first, other))
    return sorted({path for path, _ in one.keys() ^ two.keys()} | {key[0] for key in one if one[key] != two.get(key)})


def _truth(experiment: Experiment, names: set[str]) -> dict[tuple[str, str], tuple[str, str, int]]:
    from benchkit.store.content import table_entries, table_hash
    from benchkit.store.table import Table

    with Table(experiment.folder / TARGETS, "targets") as table:
        if table_hash(table) != experiment.record["files"][TARGETS].get("content"):
            raise RunError(
                f"{table.path} is not the file that record.json speaks of: its content differs. Export again."
            )
        return {
            (path, name): (dtype, shape, int(crc))
            for path, items, dtype, shapes, sums in table_entries(table)
            for name, shape, crc in zip(items, shapes, sums, strict=True)
            if name in names or not name
        }
