"""Numbers as a page shows them."""

from __future__ import annotations

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def score(value: float | None) -> str:
    """Four places after the point as everywhere, fewer of large numbers; n/a where undefined."""
    if value is None:
        return "n/a"
    return _minus(f"{value:.4f}" if abs(value) < 100 else f"{value:.1f}")


def signed(value: float | None) -> str:
    """A difference with its sign, and a real minus."""
    return "n/a" if value is None else _minus(f"{value:+.4f}")


def _minus(shown: str) -> str:
    """A real minus; what is 0 as it is shown has no sign."""
    return shown.replace("-", "\N{MINUS SIGN}") if float(shown) else shown.lstrip("+-")


def interval(low: float | None, high: float | None, show=score) -> str:  # type: ignore[no-untyped-def]
    """Both ends, or nothing where there is none."""
    return "" if low is None or high is None else f"{show(low)} to {show(high)}"


def amount(value: float | None, unit: str = "") -> str:
    """Three digits and a thousands letter: 4.65 M; a dash where nothing is known."""
    if value is None:
        return "\N{EN DASH}"
    rounded = float(f"{value:.3g}")
    step, letter = next(((step, letter) for step, letter in _STEPS if abs(rounded) >= step), (1.0, ""))
    return f"{rounded / step:.15g} {letter}{unit}".rstrip()


def probability(p: float | None) -> str:
    """Three places, and < .001 below that."""
    if p is None:
        return "n/a"
    return "< .001" if p < 0.001 else f"{p:.3f}"
