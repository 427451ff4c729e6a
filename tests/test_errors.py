"""What messages say of other errors, and of long lists."""

from __future__ import annotations

from benchkit.errors import folded, printable, quoted, reason, some


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


def test_a_long_cause_is_said_once_behind_the_first_names() -> None:
    cause = "its intrinsics are of 320 x 240 pixels and the file has 640 x 480: multiply them by 2"
    found = [f"{item}: list.csv:{line}: {item}.png: {cause}" for line, item in enumerate("abcd", 2)]
    assert folded([*found, "e: it is empty", "f: it is empty"], 3) == (
        f"{cause} (4: a: list.csv:2: a.png; b; c; and 1 more); e: it is empty; f: it is empty"
    )


def test_causes_that_differ_stay_as_they_are() -> None:
    assert folded([]) == ""
    assert folded(["a: short", "b: short", "no name"]) == "a: short; b: short; no name"
    long = "x" * 60
    assert folded([f"a: {long}", f"b: {long}y", long]) == f"a: {long}; b: {long}y; {long}"


def test_no_letter_drives_a_terminal_or_turns_text() -> None:
    letters = [0x1B, 0x9B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF, 0xDCFF]
    assert all(printable(chr(letter)).isascii() for letter in letters)


def test_a_name_that_could_be_read_as_several_or_none_is_in_quotes() -> None:
    assert [quoted(name) for name in ("a b", "", "a, b", "a -> b", ' "x"', "lr=0.1")] == [
        "a b", '""', '"a, b"', '"a -> b"', '" \\"x\\""', "lr=0.1"
    ]  # fmt: skip
