"""What all commands share: flags with - or _, errors as one paragraph, exit statuses."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence

from benchkit.errors import BenchkitError

INTERRUPTED = 130


def parser(prog: str, text: str | None, epilog: str = "") -> argparse.ArgumentParser:
    """An argument parser that prints `text` and `epilog` as they are."""
    shape = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        prog=prog, description=text, epilog=epilog, formatter_class=shape, allow_abbrev=False
    )
    made.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    return made


def dashed(argv: Sequence[str]) -> list[str]:
    """Flags with underscores are the same flags with dashes."""
    found = []
    for token in argv:
        flag, equals, value = token.partition("=")
        found.append(flag.replace("_", "-") + equals + value if token.startswith("--") else token)
    return found


def take_settings(*lists: list[str]) -> list[str]:
    """Move `key=value` words out of lists of names into one list of settings."""
    settings: list[str] = []
    for names in lists:
        settings.extend(n for n in names if "=" in n)
        names[:] = [n for n in names if "=" not in n]
    return settings


def guarded(work: Callable[[], int], traceback: bool) -> int:
    """Run a command; every failure is one paragraph on standard error and an exit status."""
    try:
        return work()
    except BenchkitError as error:
        if traceback:
            raise
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        say("interrupted: what was finished is kept; the same command goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        if traceback:
            raise
        say(f"unexpected {type(error).__name__}: {error}. --traceback shows where; please report it.")
        return BenchkitError.status


def say(text: str) -> None:
    """One paragraph on standard error."""
    width = 100 if sys.stderr.isatty() else 10_000
    print(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False), file=sys.stderr)
