"""Quasirandom numbers: points that fill the unit cube evenly."""

from __future__ import annotations

import warnings
from typing import Any

import metatensor as mt

__all__ = ["SobolEngine"]

_BITS = 30


class SobolEngine:
    """The Sobol sequence, whose first point is 0, or a scrambled one. It needs SciPy, which has the direction numbers.

    Parameters
    ----------
    dimension : int
        Number of coordinates of a point, at most `MAXDIM`.
    scramble : bool
        Whether to multiply the binary digits of each coordinate by a random lower triangular matrix and to flip random
        digits. Default False.
    seed : int, optional
        Seed of the scrambling. By default the default generator is used.

    Raises
    ------
    ValueError
        If `dimension` is not from 1 to `MAXDIM`.
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"SobolEngine: the dimension must be from 1 to {self.MAXDIM}, got {dimension}")
        from scipy.stats import qmc

        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._points = qmc.Sobol(dimension, scramble=False, bits=_BITS)
        if scramble:
            self._shift, self._columns = self._scrambling()

    def _scrambling(self) -> tuple[Any, Any]:
        """Return the digits to flip, and what each digit of a coordinate contributes to the scrambled one, as integers."""
        generator = None if self.seed is None else mt.Generator().manual_seed(self.seed)
        shift = mt.randint(0, 2**_BITS, (self.dimension,), generator=generator, device="cpu")
        # Digit 0 is the most significant. It may change all lower ones, digit 1 those after it, and so on.
        below = mt.randint(0, 2**_BITS, (self.dimension, _BITS), generator=generator, device="cpu")
        weights = 2 ** mt.arange(_BITS - 1, -1, -1, device="cpu")
        return shift, (below & (weights - 1)) | weights

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """Return the next `n` points, of shape (n, dimension).

        Parameters
        ----------
        n : int
            Default: 1.
        out : Tensor, optional
            Where to write the points.
        dtype : dtype, optional
            By default the default dtype.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The balance properties")
            points = self._points.random(n)
        self.num_generated += n
        made = mt.from_numpy(points)
        if self.scramble:
            digits = (made * 2**_BITS).to(mt.int64)
            mixed = self._shift.expand(n, self.dimension).clone()
            for k in range(_BITS):
                mixed ^= self._columns[:, k] * ((digits >> (_BITS - 1 - k)) & 1)
            made = mixed.to(mt.float64) / 2**_BITS
        made = made.to(mt.get_default_dtype() if dtype is None else dtype)
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """Return the next ``2**m`` points. Raise ValueError unless the number of points is then a power of 2."""
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(f"SobolEngine: {self.num_generated} points and {2**m} more are not a power of 2; use draw()")
        return self.draw(2**m, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip `n` points and return the engine."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def reset(self) -> SobolEngine:
        """Return to the first point, with the same scrambling, and return the engine."""
        self._points.reset()
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        details = "".join(f", {name}={value}" for name, value in (("scramble", self.scramble), ("seed", self.seed)) if value)
        return f"SobolEngine(dimension={self.dimension}{details})"
