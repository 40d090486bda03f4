"""The random numbers of a program."""

from __future__ import annotations

import struct
from typing import Any

from metatensor._core.random import default_generator

__all__ = ["Tickets"]


class Tickets:
    """Gives the random operators of a program the random numbers that they would draw in a run now.

    Every call of a random operator takes one ticket from its generator: a position in the random sequence. A program stores
    tickets relative to the generator's state when the trace began. This object adds them to the state when a run begins,
    so a run draws the same numbers as the callable would, in the same order.
    """

    def __init__(self) -> None:
        self._states: dict[int, tuple[Any, int, int]] = {}
        self._taken: dict[int, int] = {}

    def __call__(self, number: int, generator: Any = None) -> tuple[int, int]:
        """Return the seed and the absolute ticket for a relative one."""
        generator = default_generator if generator is None else generator
        if id(generator) not in self._states:
            _, key, taken = generator.__reduce__()[1]  # get_state() would create a tensor
            self._states[id(generator)] = generator, key, taken
        _, key, taken = self._states[id(generator)]
        self._taken[id(generator)] = max(self._taken.get(id(generator), 0), number + 1)
        return key, taken + number

    def finish(self) -> None:
        """Advance the generators past the tickets that were used."""
        for one, (generator, key, taken) in self._states.items():
            generator.set_state(struct.pack("<QQ", key, taken + self._taken[one]))
