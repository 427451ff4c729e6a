"""A comparison as rows of tables and lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from benchkit.compare.numbers import digits, number, probability, signed
from benchkit.errors import printable, quoted, some

if TYPE_CHECKING:
    from benchkit.compare.comparison import Comparison, Pair
    from benchkit.compare.differences import Difference
    from benchkit.compare.items import Item

FEW = 20  # units below which the interval is said to be too narrow
NAMES = 3  # items that a line names
NUMERIC = ("A", "B", "B - A", "low", "high", "p", "p (Holm)")
SIDES = {"first": "A is better", "second": "B is better"}
Table = tuple[list[str], list[list[str]]]


def differences_table(comparison: Comparison) -> Table:
    """Header and one row per pair and metric, to be read; B's tag and the number of items only where they are not all one."""
    header = ["B is", "metric (better)", *NUMERIC, "verdict", "items"]
    rows = []
    for pair in comparison.pairs:
        for each in pair.differences.values():
            about = [
                printable(pair.second),
                f"{_with_unit(each)} ({each.better})",
                *map(number, (each.first, each.second)),
            ]
            apart = [*map(signed, (each.value, each.low, each.high)), *map(probability, (each.p, each.adjusted))]
            rows.append([*about, *apart, verdict(each), str(each.n_items)])
    start = 0 if len(comparison.pairs) > 1 else 1
    stop = -1 if {row[-1] for row in rows} == {str(comparison.n_items)} else len(header)
    return header[start:stop], [row[start:stop] for row in rows]


def differences_rows(comparison: Comparison) -> Table:
    """The same for programs: a column for each thing, all digits, nothing where a number is undefined."""
    header = ["A", "B", "metric", "unit", "better", "score A", "score B", "difference", "low", "high", "p", "p (Holm)"]
    rows = []
    for pair in comparison.pairs:
        for each in pair.differences.values():
            numbers = each.first, each.second, each.value, each.low, each.high, each.p, each.adjusted
            about = [printable(pair.first), printable(pair.second), each.metric, each.unit, each.better]
            rows.append([*about, *map(digits, numbers), verdict(each), str(each.n_items)])
    return [*header, "verdict", "items"], rows


def verdict(difference: Difference) -> str:
    """Which side is better, as far as is shown; "" of a metric that only informs, or was not tested."""
    if difference.better == "neither" or difference.p is None:
        return ""
    return SIDES.get(difference.winner, "") if difference.significant else "no difference shown"


def wins_table(comparison: Comparison) -> Table | None:
    """Shares of items on which the row's tag beats the column's, ties in brackets; None where there is no such table."""
    found = comparison.wins
    if found is None:
        return None
    header = ["wins over", *map(printable, comparison.tags)]
    rows = []
    for row, tag in enumerate(comparison.tags):
        cells = [
            "" if row == column else "n/a" if not found.counts[row, column] else _share(*each)
            for column, each in enumerate(zip(found.shares[row], found.ties[row], strict=True))
        ]
        rows.append([printable(tag), *cells])
    return header, rows


def _share(wins: float, ties: float) -> str:
    return f"{wins:.1%} ({ties:.1%} ties)"


def head(comparison: Comparison) -> str:
    """Which tags A and B are."""
    second = quoted(comparison.tags[1]) if len(comparison.tags) == 2 else "the tag of the row"
    return f"{comparison.benchmark}: A is {quoted(comparison.tags[0])}, B is {second}"


def lines(comparison: Comparison) -> list[str]:
    """What a reader must know beside the numbers, a line each."""
    return [
        *(f"protocols differ, as asked: {each}" for each in comparison.across),
        *_about_items(comparison),
        *_about_tests(comparison),
        *_about_ranking(comparison),
        *(line for pair in comparison.pairs for line in _about_flips(comparison, pair)),
        *gate_lines(comparison),
    ]


def _about_items(comparison: Comparison) -> Iterator[str]:
    alone = {tag: names for tag, names in comparison.alone.items() if names}
    how = "each on its own" if comparison.n_groups is None else f"drawn and swapped as {comparison.n_groups} groups"
    yield f"items: {comparison.n_items} that all tags have, {how}"
    for tag, names in alone.items():
        shown = some((quoted(name, 80) for name in names), NAMES)
        yield f"left out, as not all tags have them: {len(names)} of {quoted(tag)} ({shown})"
    if alone:
        yield "scores are over the common items, each as it was scored among all items of its own tag"
    for pair in comparison.pairs:
        odd = [f"{each.metric} {each.n_undefined}" for each in pair.differences.values() if each.n_undefined]
        if odd:
            yield f"items left out, as A or B has no value{_which(comparison, pair)}: {', '.join(odd)}"
    n_units = min(each.n_units for pair in comparison.pairs for each in pair.differences.values())
    if n_units < FEW:
        units = "items" if comparison.n_groups is None else "groups"
        yield few(n_units, units)


def few(count: int, units: str) -> str:
    """What to say of intervals from so few items or groups."""
    return f"intervals from fewer than {FEW} {units} (here {count}) are too narrow"


def beside(metrics: Sequence[str], instead: str) -> str:
    """What to say of metrics whose interval lies to one side of their value (`differences.lopsided`)."""
    told = f"the interval of {', '.join(metrics)} lies to one side of its value: resampling adds noise to it"
    return f"{told}; {instead}" if instead else told


def _which(comparison: Comparison, pair: Pair) -> str:
    """Which pair a line is about, where there are several."""
    return f" (B is {quoted(pair.second)})" if len(comparison.pairs) > 1 else ""


def _about_tests(comparison: Comparison) -> Iterator[str]:
    chance, found = comparison.chance, [each for pair in comparison.pairs for each in pair.differences.values()]
    yield f"low and high: 95 % interval of B - A, paired percentile bootstrap, {chance.resamples} resamples, of each alone"
    if comparison.n_tests:
        yield (
            f"p: two-sided, paired permutation ({chance.permutations} swaps of a mean, {chance.set_permutations} of a score of "
            "the whole set; all there are where they are fewer)"
        )
        of = "the one test" if comparison.n_tests == 1 else f"all {comparison.n_tests} tests"
        yield f"p (Holm): for {of} shown here; a side is called better where it is below .05"
    untested = [each.metric for each in found if each.value is not None and each.p is None and each.better != "neither"]
    if untested:
        yield f"no interval and no p, as items do not tell it: {', '.join(dict.fromkeys(untested))}"
    aside = dict.fromkeys(each.metric for each in found if each.lopsided)
    if aside:
        yield beside(list(aside), "trust p" if comparison.n_tests else "")
    for pair in comparison.pairs:
        tests = [(each.metric, each.mcnemar) for each in pair.differences.values() if each.mcnemar]
        shown = [f"{name} A {t.only_first}, B {t.only_second}, p {probability(t.p)}" for name, t in tests]
        if shown:
            yield f"McNemar's exact test, items that are 1 in one alone{_which(comparison, pair)}: {'; '.join(shown)}"


def _about_ranking(comparison: Comparison) -> Iterator[str]:
    if not comparison.groups:
        return
    places = []
    place = 1
    for group in comparison.groups:
        places.append(f"{place}. {' = '.join(map(quoted, group))}")
        place += len(group)
    yield f"ranking by {comparison.headline}: {'; '.join(places)}"
    yield (
        "  = joins tags by score of which none is significantly worse than the first of them (p < .05 after Bonferroni's "
        "correction for all pairs)"
    )


def _about_flips(comparison: Comparison, pair: Pair) -> Iterator[str]:
    found = pair.flips
    if found is None:
        return
    which = _which(comparison, pair)
    for side, items in (("B gains most", found.gained), ("B loses most", found.lost)):
        if items:
            yield f"{side} in {found.column}{which}, A -> B: {', '.join(map(_item, items))}"


def _item(item: Item) -> str:
    return f"{quoted(item.name, 80)} {item.first:.3g} -> {item.second:.3g}"


def gate_lines(comparison: Comparison) -> list[str]:
    """How every gate ended, for each pair."""
    return [
        f"gate {printable(each.gate.text, 200)!r}, B is {quoted(each.pair.second)}: "
        + (f"FAILED: {each.failure}" if each.failure else "passed")
        for each in comparison.endings
    ]


def _with_unit(each: Difference) -> str:
    return f"{each.metric} [{each.unit}]" if each.unit else each.metric
