"""Work in a thread of its own: in order, one at a time, and what fails is known where the work comes from."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from benchkit.export.behind import DEPTH, Behind


def give(work: Callable[[int], Any], numbers: Iterable[int], given: list[int]) -> None:
    """Have work done with each number, and note which were given."""
    with Behind(work) as behind:
        for number in numbers:
            given.append(number)
            behind.give(number)


def test_in_order_one_at_a_time_and_all_of_it():
    done, running = [], threading.Lock()

    def work(number: int) -> None:
        assert running.acquire(blocking=False)
        time.sleep(0.001)
        done.append(number)
        running.release()

    with Behind(work) as behind:
        for number in range(50):
            behind.give(number)
            assert len(done) >= number - DEPTH - 1  # no more than these wait, and one is being done
    assert done == list(range(50))


def test_a_failure_is_raised_where_things_are_given_once_and_nothing_more_is_done():
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        if number == 3:
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        give(work, range(100), given := [])
    assert done == [0, 1, 2, 3]
    assert 3 <= len(given) < 10


def test_a_failure_of_the_last_one_is_raised_at_the_end():
    def work(number: int) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        give(work, [0], [])


def test_whoever_is_interrupted_still_has_done_what_was_given():
    done: list[int] = []

    def numbers() -> Iterator[int]:
        yield from range(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give(lambda n: (time.sleep(0.05), done.append(n)), numbers(), [])
    assert done == [0, 1, 2]


def test_an_interrupt_while_the_rest_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []
    join, calls = threading.Thread.join, []

    def interrupted(self: threading.Thread, *given: float) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        join(self, *given)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        give(lambda n: (time.sleep(0.05), done.append(n)), [0, 1], [])
    assert done == [0, 1]
