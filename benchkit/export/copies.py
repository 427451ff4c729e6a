"""Photos that occur more than once: in train and test, or under two labels, they make scores flatter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchkit.errors import UsageError
from benchkit.export.split import Split, counted
from benchkit.store.lookup import Lookup

_SHOWN = 5  # photos in a message


def check_duplicates(train: Split | None, test: Split, allow: bool) -> dict[str, Any]:
    """Count photos (equal bytes) that are in both splits or under two labels; unreadable files are left aside.

    Raises:
        UsageError: there are some and `allow` is False; names them.
    """
    by_bytes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    named: dict[str, set[str]] = defaultdict(set)
    splits = [s for s in (train, test) if s is not None] if train is None or train.name != test.name else [test]
    alike = _alike(splits)
    for split in splits if alike else ():
        for item in split.items:
            for view in split.dataset.views(item):
                if view in alike and not (facts := split.facts[view]).problem:  # all empty files are equal
                    by_bytes[facts.sha256].append((split.name, item))
                    named[facts.sha256].add(view)
    shared = {k for k, v in by_bytes.items() if len({split for split, _ in v}) > 1}
    across = [by_bytes[k] for k in by_bytes if k in shared]
    repeated = {k: v for k, v in by_bytes.items() if len(set(v)) > 1 and (len(named[k]) > 1 or k in shared)}
    labels = [v for v in repeated.values() if len({test.dataset.label(item) for _, item in v}) > 1]
    counts = {"same_split": len(repeated) - len(across), "across_splits": len(across), "two_labels": len(labels)}
    if (across or labels) and not allow:
        raise UsageError(_duplicates_message(across, labels))
    return counts


def _alike(splits: Sequence[Split]) -> set[str]:
    """Views whose bytes occur more than once."""
    facts = splits[0].facts
    rows = np.concatenate([facts.rows(split.dataset.views_of(split.items)) for split in splits])
    lookup = Lookup(facts.digests[rows], np.zeros(len(rows), np.int32), rows)
    return {facts.names[row] for start, stop in lookup.repeats() for row in lookup.rows[start:stop].tolist()}


def _duplicates_message(across: list[Any], labels: list[Any]) -> str:
    parts = []
    for what, found in (("in train and test", across), ("under two labels", labels)):
        if found:
            shown = "; ".join(" = ".join(item for _, item in v[:3]) for v in found[:_SHOWN])
            parts.append(f"{counted(len(found), 'photo is', 'photos are')} {what} ({shown})")
    return (
        f"{' and '.join(parts)}: such scores flatter. Remove the copies, or keep and count them with "
        "data.on_duplicate=keep."
    )
