"""Integer programs of choices between 0 and 1. HiGHS (https://highs.dev) solves them, through SciPy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Expression", "IntegerProgram", "Solution"]

Expression = dict[int, float]
"""A sum of variables: coefficients by variable."""


class Solution(NamedTuple):
    """The values of variables, and the relative gap to the proven bound of the objective."""

    values: list[float]
    objective: float
    gap: float

    def chosen(self, variables: Iterable[int]) -> int:
        """Return the position of the variable that is 1."""
        found = list(variables)
        return max(range(len(found)), key=lambda i: self.values[found[i]])


class IntegerProgram:
    """Variables from 0 to 1 with costs, and linear constraints. `solve` minimizes the sum of costs."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.integral: list[bool] = []
        self.rows: list[tuple[Expression, float, float]] = []

    def variable(self, cost: float = 0.0, integral: bool = True) -> int:
        """Add a variable, and return its number."""
        self.costs.append(cost)
        self.integral.append(integral)
        return len(self.costs) - 1

    def choice(self, costs: Iterable[float]) -> list[int]:
        """Add variables, exactly one of which is 1, and return their numbers."""
        found = [self.variable(cost) for cost in costs]
        self.constrain(dict.fromkeys(found, 1.0), 1.0, 1.0)
        return found

    def constrain(self, terms: Expression, low: float, high: float) -> None:
        """Add a constraint: the sum of variables times coefficients is from ``low`` to ``high``."""
        self.rows.append((terms, low, high))

    def solve(self, seconds: float, gap: float) -> Solution | None:
        """Return the best solution that is found, None if there is none.

        Parameters
        ----------
        seconds : float
            The time after which HiGHS returns the best solution that it has.
        gap : float
            The relative distance to the proven bound at which it stops.

        Raises
        ------
        ImportError
            If SciPy is missing.
        """
        try:
            import numpy as np
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csr_array
        except ImportError as error:
            raise ImportError("placing operators needs HiGHS, which is in SciPy: pip install 'metatensor-device[plan]'") from error
        starts, index, value = [0], list[int](), list[float]()
        for terms, _, _ in self.rows:
            index += terms.keys()
            value += terms.values()
            starts.append(len(index))
        matrix = csr_array((np.array(value, dtype=float), np.array(index), np.array(starts)), shape=(len(self.rows), len(self.costs)))
        scale = 1.0 / (max(map(abs, self.costs), default=0.0) or 1.0)  # times of microseconds would be within tolerances
        found = milp(
            np.array(self.costs) * scale, integrality=np.array(self.integral, dtype=int), bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, [low for _, low, _ in self.rows], [high for _, _, high in self.rows]),  # type: ignore[arg-type]
            options={"time_limit": float(seconds), "mip_rel_gap": float(gap)},
        )  # fmt: skip
        if found.x is None:
            return None
        values = [float(x) for x in found.x]
        return Solution(values, sum(cost * x for cost, x in zip(self.costs, values)), float(found.mip_gap or 0.0))
