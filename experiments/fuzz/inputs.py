"""Inputs for the readers: valid samples with random edits, and values of JSON in the wrong places."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

EDITS = ("flip", "set", "insert", "delete", "repeat", "cut", "token", "number", "splice")
LONGEST_EDIT = 64  # bytes
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF)
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 1e308, 1e-320, 10**30, 2**63, -(2**63), float("nan"), float("inf")),
    *("", "x", "mine:data", "\0", "\ud800", "é" * 40, "1", "x" * 5000, [], {}, [[]], [1, 2], {"": None}, {"x": {}}),
    *([0] * 1000, [None, "x", 1.5]),
)


def edited(samples: Sequence[bytes], tokens: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """A sample after up to eight random edits.

    Args:
        samples: Valid inputs.
        tokens: What has a meaning in the format, put at random places.
    """
    return st.builds(
        lambda sample, count, random: edit(sample, count, random, samples, tokens),
        st.sampled_from(samples),
        st.integers(0, 8),
        st.randoms(use_true_random=True),
    )


def edit(sample: bytes, count: int, random: Random, samples: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """A sample after some random edits."""
    found = bytearray(sample)
    for _ in range(count):
        place, length = random.randrange(len(found) + 1), random.randint(1, LONGEST_EDIT)
        match random.choice(EDITS):
            case "flip" if place < len(found):
                found[place] ^= 1 << random.randrange(8)
            case "set" if place < len(found):
                found[place] = random.randrange(256)
            case "insert":
                found[place:place] = random.randbytes(length)
            case "delete":
                del found[place : place + length]
            case "repeat":
                found[place:place] = found[place : place + length] * random.choice((1, 2, 100))
            case "cut":
                del found[place:]
            case "token" if tokens:
                found[place:place] = random.choice(tokens)
            case "number":
                width = random.choice((1, 2, 4, 8))
                value = random.choice(NUMBERS) % (1 << 8 * width)
                found[place : place + width] = value.to_bytes(width, random.choice(("little", "big")))
            case "splice":
                other = random.choice(samples)
                start = random.randrange(len(other) + 1)
                found[place : place + length] = other[start : start + length]
    return bytes(found)


def misplaced(sample: Any) -> st.SearchStrategy[Any]:
    """A JSON value in which up to three entries were replaced, removed or added.

    Args:
        sample: A valid value.
    """
    return st.builds(_misplace, st.just(sample), st.integers(1, 3), st.randoms(use_true_random=True))


def _misplace(sample: Any, count: int, random: Random) -> Any:
    found = copy.deepcopy(sample)
    for _ in range(count):
        place: Any = found
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = random.choice(keys)
            if isinstance(place[key], list | dict) and random.random() < 0.8:
                place = place[key]
                continue
            match random.choice(("replace", "replace", "remove", "rename")):
                case "replace":
                    place[key] = copy.deepcopy(random.choice(JUNK))
                case "remove":
                    del place[key]
                case "rename" if isinstance(place, dict):
                    place[random.choice(("x", "", f"{key}_"))] = place.pop(key)
            break
    return found


def json_text(value: Any) -> str:
    """As JSON, with NaN and Infinity as Python writes them."""
    return json.dumps(value, ensure_ascii=True)
