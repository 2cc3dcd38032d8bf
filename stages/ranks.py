"""Dealing runs out to the ranks of `torchrun`. Without it this process is the only rank, and torch.distributed is not
used at all."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from stages import InputError

TIMEOUT = timedelta(minutes=5)  # for a rank whose machine has gone without closing its connections


def _set_by_torchrun(name: str, default: str) -> int:
    value = os.environ.get(name, default)
    if not re.fullmatch("[0-9]{1,9}", value):
        raise InputError(f"the environment variable {name} is {value!r}, expected a whole number as torchrun sets it")
    return int(value)


RANK, WORLD = _set_by_torchrun("RANK", "0"), _set_by_torchrun("WORLD_SIZE", "1")
if RANK >= WORLD:
    raise InputError(f"RANK and WORLD_SIZE are {RANK} and {WORLD} in the environment, expected RANK < WORLD_SIZE")


def share(work: Callable[[list[int]], list], seeds: list[int], size: int) -> list | None:
    """The results of work(group), one for each seed of the group, for groups of `size` seeds: all in the order of
    `seeds` on rank 0, None on the others.

    Groups are dealt out in turn and never split, so that no number depends on how many ranks there are. After each
    turn the ranks meet: a rank that is lost stops the others there. Raises InputError then.
    """
    groups = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    if WORLD == 1:
        return [result for group in groups for result in work(group)]

    from torch import distributed

    with _meeting():
        distributed.init_process_group("gloo", timeout=TIMEOUT)
    results = []
    for turn in range(0, len(groups), WORLD):
        mine = groups[turn + RANK : turn + RANK + 1]  # one group, or none in the last turn
        part = [result for group in mine for result in work(group)]
        parts = [None] * WORLD if RANK == 0 else None
        with _meeting():
            distributed.gather_object(part, parts)
        results += [result for part in parts or [] for result in part]
    distributed.destroy_process_group()
    return results if RANK == 0 else None


@contextmanager
def _meeting() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # ValueError: there is no torchrun behind RANK and WORLD_SIZE
        raise InputError(f"rank {RANK} of {WORLD} cannot meet the others: {str(error).splitlines()[0]}") from error
