"""Random numbers and ids. A simulated node is given a seeded generator.

Lowest layer of `ottla.broker`: every other layer may import it.
"""

from __future__ import annotations

import os
import random


class Randomness:
    __slots__ = ("_generator",)

    def __init__(self, generator: random.Random | None = None) -> None:
        self._generator = generator or random.Random(os.urandom(16))

    def draw(self, below: int) -> int:
        """Return a random number from range(below)."""
        return self._generator.randrange(below)

    def session_id(self) -> int:
        """Return a positive int32."""
        return self._generator.randint(1, 2**31 - 1)

    def uuid(self) -> bytes:
        """Return 16 random bytes whose text form has no leading dash: tools would take it for an option."""
        while True:
            value = self._generator.randbytes(16)
            if value[0] >> 2 != 62:
                return value
