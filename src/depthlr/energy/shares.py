"""The batches that persistent energies are learnt from and seen on: three or more, of several seeds each its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from depthlr.energy.batch import batches_of, counted, opened, read, several
from depthlr.errors import DepthlrError
from depthlr.law.domain import whole

LEARNT_FROM = 16  # batches; fewer leave more noise, though no bias
LIMIT = LEARNT_FROM + 1  # batches of a loader, if not told


def checked_batches(batches: Any, limit: int | None, seed: int) -> list[Any]:
    """Three or more, or a sentence that says why."""
    _check_limit(limit)
    return _enough(batches_of(batches, limit, LIMIT, seed))


def _check_limit(limit: int | None) -> None:
    if limit is not None and whole(limit, "limit", least=1) < 3:
        raise DepthlrError(f"limit is {limit}, and telling what batches agree on takes three or more.")


def _enough(found: list[Any]) -> list[Any]:
    if len(found) < 3:
        held = f"holds {len(found)}" if found else "is empty"
        raise DepthlrError(
            f"batches {held}, and telling what batches agree on takes three or more: two to learn from, one to see the "
            f"step on; {LIMIT} are a good number."
        )
    return found


@dataclass(frozen=True)
class Shares:
    """The batches of several seeds."""

    first: Any  # batch of the first seed
    size: int  # batches of one seed
    each: Iterator[list[Any]]  # an entry a seed, not read before it is asked for: all at once may not fit in memory


def shares(batches: Any, seeds: int, limit: int | None, seed: int) -> Shares:
    """`limit` batches of its own for every seed, where there are enough; else all have the first `limit`.

    If that is None it is `LIMIT`, and of a sequence all are used. Noise that seeds share would not average out.
    """
    if seeds == 1:
        only = checked_batches(batches, limit, seed)
        return Shares(only[0], len(only), iter([only]))
    _check_limit(limit)
    given = several(batches)
    use_all = limit is None and isinstance(given, Sequence)
    each = LIMIT if limit is None else limit
    if isinstance(given, Iterator):  # it can be read but once, so it must be held to be counted
        given = read(given, each * seeds, seed)
    count = counted(given, each * seeds, seed)
    if use_all:
        each = count // seeds if count >= each * seeds else count
    source = opened(given)
    start = _enough(read(source, each, seed))
    if count < each * seeds:
        return Shares(start[0], len(start), repeat(start, seeds))
    # A share is gone before the next one is read: nothing keeps a name of it, and a list's iterator lets go at its end.
    rest = (_whole_share(read(source, each, seed + place), each) for place in range(1, seeds))
    return Shares(start[0], each, chain(iter([start]), rest))


def _whole_share(found: list[Any], each: int) -> list[Any]:
    if len(found) < each:
        raise DepthlrError("batches ended before its length said so: pass a list of them.")
    return found
