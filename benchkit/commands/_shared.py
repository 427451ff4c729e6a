"""What all commands share: flags with - or _, settings anywhere, errors as one paragraph, exit statuses."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import textwrap
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from benchkit import trust
from benchkit.commands._signals import INTERRUPTED, stoppable
from benchkit.errors import BenchkitError, printable


class Parser(argparse.ArgumentParser):
    """Says in one paragraph what is wrong, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        """Raises SystemExit(2)."""
        say(f"{self.prog}: {message}. `{self.prog} --help` shows what there is.")
        raise SystemExit(2)


def parser(prog: str, text: str | None, epilog: str = "") -> Parser:
    """An argument parser that prints `text` and `epilog` as they are."""
    shape = argparse.RawDescriptionHelpFormatter
    made = Parser(prog=prog, description=text, epilog=epilog, formatter_class=shape, allow_abbrev=False)
    made.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    made.add_argument(
        "--trust", action="store_true", help="import the code that files from elsewhere name by dotted paths"
    )
    return made


def parse(made: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """The parsed flags; `key=value` words may stand anywhere (argparse stops taking them after a flag)."""
    given, rest = made.parse_known_args(dashed(argv))
    odd = [word for word in rest if word.startswith("-") or "=" not in word]
    if odd or (rest and not hasattr(given, "settings")):
        made.error(f"unrecognized arguments: {' '.join(odd or rest)}")
    if rest:
        given.settings = [*given.settings, *rest]
    trust.begin(given.trust)
    for named in (getattr(given, "benchmark", None), getattr(given, "benchmarks", None)):
        trust.typed(*([named] if isinstance(named, str) else named or []))
    return given


def dashed(argv: Sequence[str]) -> list[str]:
    """Flags with underscores are the same flags with dashes."""
    found = []
    for token in argv:
        flag, equals, value = token.partition("=")
        found.append(flag.replace("_", "-") + equals + value if token.startswith("--") else token)
    return found


def take_settings(*lists: list[str], is_name: Callable[[str], bool] = os.path.exists) -> list[str]:
    """Move `key=value` words out of lists of names into one list of settings.

    Args:
        lists: changed in place.
        is_name: whether a word with `=` is the name of something that exists, such as the path `lr=0.1/conf.yaml`.
    """
    settings: list[str] = []
    for names in lists:
        found = [n for n in names if "=" in n and not is_name(n)]
        settings.extend(found)
        names[:] = [n for n in names if n not in found]
    return settings


def guarded(work: Callable[[], int], show_traceback: bool, command: str = "", goes_on: bool = True) -> int:
    """Run a command; every failure is one paragraph on standard error and an exit status.

    Args:
        work: the command.
        show_traceback: after a failure.
        command: as it was typed, of one that goes on where it was stopped: SIGTERM then does what Ctrl-C does.
        goes_on: whether the same command goes on where it was stopped; else it starts again.
    """
    try:
        with stoppable(goes_on) if command else contextlib.nullcontext():
            status = work()
        sys.stdout.flush()  # here, so that a closed pipe is noticed here
        return status
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        again = f"the same command goes on from there{f': {command}' if command else '.'}"
        say(
            f"interrupted: what was finished is kept; {again}"
            if goes_on
            else "interrupted: the same command starts anew."
        )
        return INTERRUPTED
    except Exception as error:
        return failed(error, show_traceback)


def failed(error: Exception, show_traceback: bool) -> int:
    """Say what went wrong, after where it did if that was asked for; returns the exit status."""
    if show_traceback:
        traceback.print_exception(error)
    if isinstance(error, BenchkitError):
        say(str(error))
        return error.status
    hint = "please report it" if show_traceback else "--traceback shows where; please report it"
    say(f"unexpected {type(error).__name__}: {error}. {hint}.")
    return BenchkitError.status


def say(text: str) -> None:
    """One paragraph on standard error."""
    width = 100 if sys.stderr.isatty() else 1_000_000
    line = printable(" ".join(each.strip() for each in text.splitlines() if each.strip()))  # it may quote a file
    print(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False), file=sys.stderr)
