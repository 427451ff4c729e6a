"""Several experiments against the first of them: all that `benchkit compare` says, as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from benchkit.compare.aligned import Aligned
from benchkit.compare.differences import Chance, Difference, adjusted, differences
from benchkit.compare.gates import Gate
from benchkit.compare.items import Flips, Wins, flips, wins
from benchkit.compare.ranking import ranked
from benchkit.eval.base import Metric


@dataclasses.dataclass(frozen=True)
class Pair:
    """The second experiment against the first.

    Attributes:
        first, second: their tags.
        differences: by metric.
        flips: the items on which they differ most; None where items have no score of their own.
    """

    first: str
    second: str
    differences: dict[str, Difference]
    flips: Flips | None


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a gate ended for a pair; `failure` is "" where it passed."""

    gate: Gate
    pair: Pair
    failure: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Experiments of one benchmark against the first of them.

    Attributes:
        benchmark: name of the instance.
        tags: in the order asked for; the first is the reference.
        metrics: those compared; headline: the name of the family's first.
        pairs: the reference against each other one.
        n_items: common items; n_groups: what they are drawn in, None where each item stands alone.
        alone: per tag, its items that not all have, in name order.
        wins: who is better on how many items; None for two experiments, and where items have no score of their own.
        groups: tags by the headline, those that are not told apart together, the best first; empty for two.
        endings: of every gate and pair.
        chance: how often it was tried.
        across: what of the protocols differs, as was asked for, by tag.
    """

    benchmark: str
    tags: list[str]
    metrics: list[Metric]
    headline: str
    pairs: list[Pair]
    n_items: int
    n_groups: int | None
    alone: dict[str, list[str]]
    wins: Wins | None
    groups: list[list[str]]
    endings: list[Ending]
    chance: Chance
    across: list[str] = dataclasses.field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any gate failed."""
        return any(ending.failure for ending in self.endings)

    @property
    def n_tests(self) -> int:
        """For how many tests p is corrected."""
        return sum(each.adjusted is not None for pair in self.pairs for each in pair.differences.values())


def compared(
    aligned: Aligned, metrics: Sequence[Metric], gates: Sequence[Gate], chance: Chance, n_flips: int
) -> Comparison:
    """Compare experiments that may be compared.

    Args:
        aligned: the experiments; the first is the reference.
        metrics: of their family; Holm's correction is for all of them and all pairs. Those that only inform have no test.
        gates: their metrics are among these.
        chance: more permutations are taken where there are many tests.
        n_flips: items that are named for each pair and direction.
    """
    others = range(1, len(aligned.experiments))
    chance = chance.for_tests(len(others) * sum(each.better != "neither" for each in metrics))
    found = [each for k in others for each in differences(aligned, (0, k), metrics, chance)]
    found = adjusted([_informing(each) if each.better == "neither" else each for each in found])
    pairs = [
        _pair(aligned, k, found[start : start + len(metrics)], n_flips)
        for k, start in zip(others, range(0, len(found), len(metrics)), strict=True)
    ]
    tags = [each.tag for each in aligned.experiments]
    many = len(tags) > 2
    headline = aligned.experiments[0].family.metrics()[0]
    groups = ranked(aligned, headline, chance) if many else []
    return Comparison(
        benchmark=aligned.experiments[0].benchmark,
        tags=tags,
        metrics=list(metrics),
        headline=headline.name,
        pairs=pairs,
        n_items=len(aligned.names),
        n_groups=None if aligned.groups is None else len(set(aligned.groups)),
        alone=dict(zip(tags, aligned.alone, strict=True)),
        wins=wins(aligned) if many else None,
        groups=[[tags[place] for place in group] for group in groups],
        endings=[Ending(gate, pair, gate.failure(pair.differences)) for pair in pairs for gate in gates],
        chance=chance,
    )


def _informing(difference: Difference) -> Difference:
    """Without a test: it is no question which is better."""
    return dataclasses.replace(difference, p=None, mcnemar=None)


def _pair(aligned: Aligned, place: int, found: Sequence[Difference], n_flips: int) -> Pair:
    first, second = aligned.experiments[0].tag, aligned.experiments[place].tag
    return Pair(first, second, {each.metric: each for each in found}, flips(aligned, (0, place), n_flips))
