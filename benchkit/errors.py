"""What stops a command, and with which exit status: 0 done, 1 gate failed, 2 usage or input, 3 while running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_BETWEEN = (",", ";", "->", " = ", " and ", '"')  # what stands between names
LONG = 60  # letters of a cause that is not repeated for every thing


class BenchkitError(Exception):
    """A stop that the user can read: one paragraph saying what is wrong, where, and what mends it."""

    status = 3

    def __str__(self) -> str:
        """One paragraph that no terminal acts on: it may quote names and texts from a stranger's file."""
        return "\n".join(printable(line) for line in super().__str__().splitlines() if line.strip())


class UsageError(BenchkitError):
    """Wrong usage, config or input: found before any work is lost."""

    status = 2


class RunError(BenchkitError):
    """Failed while running (disk, memory, not finite, damaged file); what was finished is kept and can be resumed."""

    status = 3


def reason(error: Exception, length: int = 200) -> str:
    """What an error says, or else its type, on one line without a full stop: for messages that tell of it."""
    return (" ".join(str(error).split())[:length] or type(error).__name__).removesuffix(".")


def some(names: Iterable[str], count: int = 4, between: str = ", ") -> str:
    """The first `count` names, and how many more there are: for messages."""
    known = list(names)
    more = "; and" if between == "; " else " and"
    return between.join(known[:count]) + (f"{more} {len(known) - count} more" if len(known) > count else "")


def folded(messages: Iterable[str], count: int = 5) -> str:
    """Messages of the form `name: more: cause`; a long cause that several end with is said once, behind their names.

    Args:
        messages: one for each thing.
        count: so many names, and so many messages, are shown.
    """
    left = [message.split(": ") for message in messages]
    told: list[str] = []
    while len(told) < count:
        tails = Counter(tuple(parts[k:]) for parts in left for k in range(1, len(parts)))
        cause = max(tails, key=lambda tail: (tails[tail] - 1) * len(": ".join(tail)), default=())
        if tails[cause] < 2 or len(": ".join(cause)) < LONG:
            break
        alike = [parts[: -len(cause)] for parts in left if _ends(parts, cause)]
        left = [parts for parts in left if not _ends(parts, cause)]
        names = some([": ".join(alike[0]), *(parts[0] for parts in alike[1:])], count, "; ")
        told.append(f"{': '.join(cause)} ({len(alike)}: {names})")
    return some([*told, *(": ".join(parts) for parts in left)], count, "; ")


def _ends(parts: list[str], cause: tuple[str, ...]) -> bool:
    return len(parts) > len(cause) and tuple(parts[-len(cause) :]) == cause


def printable(text: object, most: int | None = None) -> str:
    """Text from a stranger's file for a terminal: what is not printable is escaped, and it is cut to `most` letters."""
    given = str(text) if most is None else str(text)[: 4 * most]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in given)
    return shown if most is None or len(shown) <= most else f"{shown[: most - 3]}..."


def quoted(name: object, most: int | None = None) -> str:
    """A name among others in a line: printable, and in quotes where it could be read as several, as none or as an arrow."""
    shown = printable(name, most)
    if shown and shown == shown.strip() and not any(sign in shown for sign in _BETWEEN):
        return shown
    escaped = shown.replace('"', '\\"')
    return f'"{escaped}"'


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory did not suffice."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text
