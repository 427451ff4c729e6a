"""What messages say of other errors, and of long lists."""

from __future__ import annotations

from benchkit.errors import reason, some


def test_a_reason_is_one_line_without_its_full_stop() -> None:
    assert reason(ValueError("size mismatch:\n\tweight (2, 3).")) == "size mismatch: weight (2, 3)"
    assert reason(ValueError("abcdef"), 3) == "abc"


def test_an_error_that_says_nothing_is_named_by_its_type() -> None:
    assert reason(EOFError()) == "EOFError"
    assert reason(AssertionError(" \n")) == "AssertionError"


def test_the_first_names_and_how_many_more() -> None:
    assert some(["a", "b"], 2) == "a, b"
    assert some("abcde", 3) == "a, b, c and 2 more"
    assert some("abcde", 3, "; ") == "a; b; c; and 2 more"
