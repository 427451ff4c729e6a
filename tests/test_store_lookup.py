"""Rows by name against a dictionary, with keys that collide."""

import hashlib

import numpy as np
import pytest

from benchkit.store.lookup import DIGEST, Lookup, digests, hexadecimal, merged


def made(rng: np.random.Generator, count: int, colliding: bool) -> np.ndarray:
    """Digests of which some are equal, and of which many begin alike."""
    found = rng.integers(0, 256, (count, DIGEST), np.uint8)
    if colliding:
        found[:, :8] = rng.integers(0, 3, (count, 1))
        found[:, 8:31] = 0
    return found


@pytest.mark.parametrize("colliding", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 500])
def test_as_a_dictionary_would(count, colliding):
    rng = np.random.default_rng(count)
    images, parts = made(rng, count, colliding), rng.integers(0, 5, count).astype(np.int32)
    rows = rng.permutation(count).astype(np.int32)
    half = count // 2
    lookup = merged([Lookup(images[s], parts[s], rows[s]) for s in (slice(half), slice(half, None))])
    expected: dict[bytes, list[int]] = {}
    for image, part in zip(images, parts, strict=True):
        expected.setdefault(image.tobytes(), []).append(part)
    wanted = np.concatenate([images, made(rng, 50, colliding)])
    found = lookup.find(wanted)
    for image, at in zip(wanted, found, strict=True):
        assert (at < 0) == (image.tobytes() not in expected)
        if at >= 0:
            assert lookup.parts[at] == min(expected[image.tobytes()])
            assert np.array_equal(images[rows.tolist().index(lookup.rows[at])], image)
    runs = {lookup.digests[start].tobytes(): lookup.parts[start:stop].tolist() for start, stop in lookup.repeats()}
    assert runs == {image: sorted(where) for image, where in expected.items() if len(where) > 1}


@pytest.mark.parametrize(
    "names",
    [[], ["a"], [hashlib.sha256(b"1").hexdigest(), "b"], ["0" * 63, "0" * 65], ["A" * 64, "a" * 64], [" " * 64]],
)
def test_unequal_names_have_unequal_digests(names):
    found = digests(names)
    assert found.shape == (len(names), DIGEST)
    assert len({each.tobytes() for each in found}) == len(set(names))


def test_a_sha256_stands_for_itself():
    names = [hashlib.sha256(bytes([n])).hexdigest() for n in range(5)]
    assert hexadecimal(digests(names)) == names
    assert np.array_equal(digests([*names, "odd"])[:5], digests(names))
