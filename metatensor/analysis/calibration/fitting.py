"""Costs of operators from samples: seconds as a function of bytes and operations."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from metatensor.analysis.calibration.measuring import Sample
from metatensor.analysis.kinds import kind_of
from metatensor.devices.profiles import OperatorCost

__all__ = ["by_kind", "by_operator", "fit"]

STEPS = 1.5
"""Points whose numbers of bytes differ by less than this factor are merged."""

ROUNDS = 6
"""Iterations of the fit of a line."""


def by_operator(samples: Iterable[Sample]) -> dict[str, OperatorCost]:
    """Return the cost of each operator, and of each form of an operator, that has samples."""
    groups = defaultdict(list)
    for sample in samples:
        groups[f"{sample.call.op} {sample.call.form}".strip()].append(sample)
    return {name: fit(group) for name, group in sorted(groups.items())}


def by_kind(samples: Iterable[Sample]) -> dict[str, OperatorCost]:
    """Return the cost of each kind of operators: views, and those of `kind_of`."""
    groups = defaultdict(list)
    for sample in samples:
        groups[kind_of(sample.call.op) if sample.call.launches else "view"].append(sample)
    return {kind: fit(group) for kind, group in sorted(groups.items())}


def fit(samples: Sequence[Sample]) -> OperatorCost:
    """Return the cost of calls: a line if they have operations, else a curve through points."""
    if any(sample.call.flops for sample in samples):
        return _line([(sample.call.bytes, sample.call.flops, sample.call.repeated, sample.seconds) for sample in samples])
    return _curve([(sample.call.bytes, sample.seconds) for sample in samples])


def _curve(points: list[tuple[int, float]]) -> OperatorCost:
    """Return the curve through medians of groups of points with about the same number of bytes; it never falls."""
    groups: list[list[tuple[int, float]]] = []
    for point in sorted(points):
        if groups and point[0] <= max(groups[-1][0][0], 64) * STEPS:
            groups[-1].append(point)
        else:
            groups.append([point])
    bytes: list[float] = []
    seconds: list[float] = []
    for group in groups:
        x, y = sum(point[0] for point in group) / len(group), median(point[1] for point in group)
        bytes.append(x)
        seconds.append(max(y, seconds[-1] if seconds else 0.0))
    return OperatorCost(bytes=tuple(bytes), seconds=tuple(seconds))


def _line(points: Sequence[tuple[float, float, float, float]]) -> OperatorCost:
    """Return the overhead and rates, none negative, with the least squared relative errors."""
    points = [point for point in points if point[3] > 0]
    guess = [point[3] for point in points]
    found = [0.0] * 4
    for _ in range(ROUNDS):
        # Dividing by the geometric mean of measured and predicted times makes errors up and down count alike.
        weights = [1 / math.sqrt(point[3] * other) for point, other in zip(points, guess, strict=True)]
        rows = [([w, w * b, w * f, w * r], w * s) for w, (b, f, r, s) in zip(weights, points, strict=True)]
        best = math.inf
        for used in itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in (1, 2, 3, 4)):
            solution = _least_squares([([row[i] for i in used], aim) for row, aim in rows])
            if solution is None or min(solution) < 0:
                continue
            values = [0.0] * 4
            for i, value in zip(used, solution, strict=True):
                values[i] = value
            error = sum((sum(a * v for a, v in zip(row, values, strict=True)) - aim) ** 2 for row, aim in rows)
            if error < best * 0.9999:
                best, found = error, values
        guess = [max(found[0] + b * found[1] + f * found[2] + r * found[3], s / 10) for b, f, r, s in points]
    per_byte, per_flop, again = (1 / value if value else None for value in found[1:])
    return OperatorCost(found[0], per_byte, per_flop, again)


def _least_squares(rows: list[tuple[list[float], float]]) -> list[float] | None:
    """Return the solution of ``a @ x = b`` for rows (a, b) with the least squares, or None if it is not determined."""
    if not rows:
        return None
    n = len(rows[0][0])
    scale = [max(abs(a[i]) for a, _ in rows) or 1.0 for i in range(n)]
    scaled = [([value / scale[i] for i, value in enumerate(a)], b) for a, b in rows]
    matrix = [[sum(a[i] * a[j] for a, _ in scaled) for j in range(n)] + [sum(a[i] * b for a, b in scaled)] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(matrix[k][i]))
        if abs(matrix[pivot][i]) < 1e-12:
            return None
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for k in range(n):
            if k != i:
                factor = matrix[k][i] / matrix[i][i]
                matrix[k] = [a - factor * b for a, b in zip(matrix[k], matrix[i], strict=True)]
    return [matrix[i][n] / matrix[i][i] / scale[i] for i in range(n)]
