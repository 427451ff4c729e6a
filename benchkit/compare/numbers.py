"""Numbers as tables show them; what is 0 as it is shown has no sign."""

from __future__ import annotations

UNDEFINED = "n/a"
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
LEAST = 5e-5  # p that four places do not show


def number(value: float | None, places: int = 4) -> str:
    """So many places after the point; n/a where undefined."""
    return UNDEFINED if value is None else f"{value:z.{places}f}"


def signed(value: float | None, places: int = 4) -> str:
    """A difference: with its sign."""
    text = number(value, places)
    return f"+{text}" if value is not None and float(text) > 0 else text


def probability(p: float | None) -> str:
    """A p, which is never shown as 0 unless it is."""
    return "<.0001" if p is not None and 0 < p < LEAST else number(p)


def amount(value: float | None, unit: str = "") -> str:
    """A count in three digits and a thousands letter: 4.65 M; n/a where unknown."""
    if value is None:
        return UNDEFINED
    rounded = float(f"{value:.3g}")
    step, letter = next(((step, letter) for step, letter in _STEPS if abs(rounded) >= step), (1.0, ""))
    return f"{rounded / step:.15g} {letter}{unit}".rstrip()


def digits(value: float | None) -> str:
    """All digits; nothing where undefined."""
    return "" if value is None else repr(float(value))
