"""Numbers as a page shows them: as tables do, with a real minus."""

from __future__ import annotations

from benchkit.compare import numbers


def score(value: float | None) -> str:
    """Four places after the point as everywhere, fewer of large numbers; n/a where undefined."""
    return _minus(numbers.number(value, 4 if value is None or abs(value) < 100 else 1))


def signed(value: float | None) -> str:
    """A difference with its sign, and a real minus."""
    return _minus(numbers.signed(value))


def _minus(shown: str) -> str:
    return shown.replace("-", "\N{MINUS SIGN}")


def interval(low: float | None, high: float | None, show=score) -> str:  # type: ignore[no-untyped-def]
    """Both ends, or nothing where there is none."""
    return "" if low is None or high is None else f"{show(low)} to {show(high)}"
