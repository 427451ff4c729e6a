"""Which of several experiments is better, by how much, on which items, and whether chance alone could say so."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.compare.comparison import Comparison
    from benchkit.eval.base import Benchmark, Metric


def compare(
    benchmark: str,
    tags: Sequence[str],
    *,
    metrics: Sequence[str] | None = None,
    allow_missing: bool = False,
    across: Sequence[str] = (),
    fail_if: Sequence[str] = (),
    items: int = 5,
    resamples: int = 1000,
    seed: int = 0,
    outputs: str | Path | None = None,
) -> Comparison:
    """Compare scored tags of one benchmark, item by item: differences are a tag's score minus the first tag's.

    Args:
        benchmark: as it was exported.
        tags: two or more, the first is the reference; one with * stands for all scored ones that fit.
        metrics: names of those compared, in any case; default: all of the family.
        allow_missing: compare the common items where not all tags have the same.
        across: fields of the protocol that may differ, since they are the question: head, layers, pool, norm, seed, train_id.
        fail_if: gates, see `gates.read_gate`.
        items: how many are named for each pair and direction, those that differ most.
        resamples, seed: of the bootstrap; the seed is that of the permutations too.
        outputs: outputs folder.

    Raises:
        UsageError: a tag is not scored, the protocols or the items differ, a metric does not exist, or a gate cannot be read.
    """
    from benchkit.compare.aligned import Aligned
    from benchkit.compare.checks import refuse_unequal
    from benchkit.compare.comparison import compared
    from benchkit.compare.differences import Chance
    from benchkit.compare.gates import read_gate
    from benchkit.errors import UsageError
    from benchkit.experiments.experiment import open_experiments
    from benchkit.store.outputs import Outputs

    experiments = open_experiments(Outputs(outputs), benchmark, tags)
    if len(experiments) < 2:
        raise UsageError(f"{_too_few(tags, [each.tag for each in experiments])}: a comparison takes two tags or more.")
    family = experiments[0].family
    gates = [read_gate(text, family) for text in fail_if]
    chosen = _chosen(family, metrics, [name for gate in gates for name in gate.metrics])
    aligned = Aligned(experiments)
    apart = refuse_unequal(aligned, allow_missing, across)
    found = compared(aligned, chosen, gates, Chance(resamples=resamples, seed=seed), items)
    return dataclasses.replace(found, across=apart)


def _too_few(given: Sequence[str], found: Sequence[str]) -> str:
    """What was given in place of two tags."""
    if len(given) < 2 or not found:
        return " ".join(given) or "no tag"
    return f"{' '.join(given)} is one tag {'twice' if len(given) == 2 else f'{len(given)} times'} ({found[0]})"


def _chosen(family: Benchmark, names: Sequence[str] | None, gated: Sequence[str]) -> list[Metric]:
    """All metrics, or those asked for and those of gates, in the order of tables."""
    from benchkit.compare.differences import metric_named

    if names is None:
        return family.metrics()
    wanted = {metric_named(family, name).name for name in (*names, *gated)}
    return [each for each in family.metrics() if each.name in wanted]
