"""Gradients of linear systems, least squares, determinants, matrix exponentials and Householder reflections.

For the conventions see `metatensor.rules.gradients.linalg`.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import linalg, ops
from metatensor.rules.gradients.linalg import pseudoinverse

__all__ = []


def _is_vector(a: Any, b: Any) -> bool:
    """Return whether B in A X = B holds a single vector for each matrix of A."""
    return len(b.shape) == 1 or tuple(b.shape) == tuple(a.shape[:-1])


def _outer(grad: Any, x: Any, left: bool) -> Any:
    """Return the gradient of A in A X = B or X A = B, given the gradient of B."""
    return -(grad @ x.mH) if left else -(x.mH @ grad)


# Linear systems -------------------------------------------------------------------------------


def solve(grad: Any, A: Any, B_meta: Any, left: bool, result: Any, LU: Any, pivots: Any, wanted: Any) -> Any:
    """Solve with the saved factors. They are not differentiable, so a second derivative solves the system from scratch."""
    vector = _is_vector(A, B_meta)
    if vector:
        grad, result = grad.unsqueeze(-1), result.unsqueeze(-1)
    if mt.is_grad_enabled():
        right = linalg.solve(A.mH, grad, left=left)
    else:
        right = linalg.lu_solve(LU, pivots, grad, left=left, adjoint=True)
    matrix = _outer(right, result, left) if wanted[0] else None
    return matrix, right.squeeze(-1) if vector else right


def solve_through(A: Any, B: Any, left: bool, check_errors: bool) -> Any:
    result, _, _, info = ops._linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return result, info


def _triangle(x: Any, upper: bool, unit: bool) -> Any:
    if upper:
        return x.triu(1 if unit else 0)
    return x.tril(-1 if unit else 0)


def solve_triangular(grad: Any, input: Any, upper: bool, left: bool, unitriangular: bool, result: Any, wanted: Any) -> Any:
    right = linalg.solve_triangular(input.mH, grad, upper=not upper, left=left, unitriangular=unitriangular)
    return _triangle(_outer(right, result, left), upper, unitriangular) if wanted[0] else None, right


def triangular_solve(
    grads: Any, input: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool, solution: Any, wanted: Any
) -> Any:
    by_solution, by_copy = grads
    if by_solution is None:
        return None, by_copy
    right = ops.triangular_solve(by_solution, conj(A), upper, not transpose, unitriangular)[0]
    if not wanted[1]:
        return right, None
    matrix = -(conj(solution) @ right.mT) if transpose else -(right @ solution.mH)
    matrix = _triangle(matrix, upper, unitriangular)
    return right, matrix if by_copy is None else matrix + by_copy


def lu_solve(grad: Any, LU: Any, pivots: Any, left: bool, adjoint: bool, result: Any, wanted: Any) -> Any:
    """Differentiate A = P L U, or its adjoint. Given G, the gradient of A, L has the gradient P^T G U^H and U L^H P^T G."""
    right = linalg.lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    if not wanted[0]:
        return None, right
    p, lower, upper = ops.lu_unpack(LU, pivots)
    matrix = _outer(right, result, left)
    if adjoint:
        matrix = matrix.mH
    matrix = p.mT @ matrix
    return (matrix @ upper.mH).tril(-1) + (lower.mH @ matrix).triu(), right


def least_squares(grads: Any, input: Any, b: Any, solution: Any, wanted: Any) -> Any:
    """The solution X is pinv(A) B. The residuals are the squared norms of the columns of A X - B."""
    by_solution, by_residuals = grads[:2]
    matrix = right = None
    vector = _is_vector(input, b)
    x, y = (solution.unsqueeze(-1), b.unsqueeze(-1)) if vector else (solution, b)
    if by_solution is not None:
        g = by_solution.unsqueeze(-1) if vector else by_solution
        inverse = linalg.pinv(input)
        right = inverse.mH @ g
        if wanted[0]:
            matrix = pseudoinverse(g @ y.mH, input, inverse)
    if by_residuals is not None and by_residuals.numel():
        change = 2 * (input @ x - y) * by_residuals.unsqueeze(-2)
        right = -change if right is None else right - change
        if wanted[0]:
            matrix = change @ x.mH if matrix is None else matrix + change @ x.mH
    return matrix, right.squeeze(-1) if vector and right is not None else right


# Determinants ---------------------------------------------------------------------------------


def _adjoint_solution(by_inverse: Any, A: Any, LU: Any, pivots: Any) -> Any:
    """Return A^-H times a number for each matrix."""
    scaled = ops.diag_embed(by_inverse.to(A.dtype).unsqueeze(-1).expand(A.shape[:-1]))
    if mt.is_grad_enabled():
        return linalg.solve_ex(A.mH, scaled)[0]
    return linalg.lu_solve(LU, pivots, scaled, adjoint=True)


def det(grad: Any, A: Any, result: Any, LU: Any, pivots: Any) -> Any:
    """From d det(A) = det(A) tr(A^-1 dA).

    For a singular matrix, a tiny number replaces the zeros on the diagonal of U. It cancels in the matrix of cofactors.
    """
    if not A.numel():
        return ops.zeros_like(A)
    if A.shape[-1] == 1:
        return grad.unsqueeze(-1).unsqueeze(-1).expand(A.shape)
    zeros = LU.diagonal(0, -2, -1) == 0
    added = ops.diag_embed(ops.where(zeros, mt.finfo(LU.dtype).eps, 0.0).to(LU.dtype))
    if mt.is_grad_enabled():
        p, lower, _ = ops.lu_unpack(LU, pivots)
        regular = A + p @ lower @ added
        return _adjoint_solution(grad * conj(ops.where(zeros.any(-1), linalg.det(regular), result)), regular, LU, pivots)
    regular = LU + added
    moved = pivots != ops.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=pivots.device)
    found = regular.diagonal(0, -2, -1).prod(-1) * (1 - 2 * (moved.sum(-1) % 2))
    return _adjoint_solution(grad * conj(ops.where(zeros.any(-1), found, result)), A, regular, pivots)


def slogdet(grads: Any, A: Any, sign: Any, LU: Any, pivots: Any) -> Any:
    """From d log det(A) = tr(A^-1 dA). The real part changes the logarithm, the imaginary part the phase of the sign."""
    by_sign, by_log = grads[:2]
    turned = None
    if by_sign is not None and sign.dtype.is_complex:
        turned = (conj(by_sign) * sign).imag
    if by_log is None and turned is None:
        return None
    if turned is None:
        return _adjoint_solution(by_log, A, LU, pivots)
    real = ops.zeros_like(turned) if by_log is None else by_log
    return _adjoint_solution(ops.complex(real, -turned), A, LU, pivots)


def det_through(A: Any) -> Any:
    return ops._linalg_det(A)[0]


def slogdet_through(A: Any) -> Any:
    return tuple(ops._linalg_slogdet(A)[:2])


def logdet_through(input: Any) -> Any:
    sign, logarithm = ops._linalg_slogdet(input)[:2]
    if sign.dtype.is_complex:
        return sign.log() + logarithm
    return ops.where(sign == -1, logarithm.new_full((), float("nan")), logarithm)


# Matrix exponential ---------------------------------------------------------------------------


def matrix_exp(grad: Any, input: Any) -> Any:
    """Return the derivative of exp at A^H in the direction G. It is a block of exp of a block triangular matrix."""
    adjoint, n = input.mH, input.shape[-1]
    upper = ops.cat([adjoint, grad], -1)
    lower = ops.cat([ops.zeros_like(adjoint), adjoint], -1)
    return linalg.matrix_exp(ops.cat([upper, lower], -2)).narrow(-2, 0, n).narrow(-1, n, n)


# Householder reflections ----------------------------------------------------------------------


def _reflections(result: Any, grad: Any, vectors: Any, tau: Any, transposed: bool) -> Any:
    """Differentiate W = H[1] ... H[k] C, or H[k]^H ... H[1]^H C if transposed, where H[i] = 1 - tau[i] v[i] v[i]^H.

    For each factor from the first to the last, remove it from W and apply its adjoint to the gradient. Return the
    gradients of the vectors and of tau.
    """
    m, k = vectors.shape[-2], tau.shape[-1]
    columns: list[Any] = [None] * k
    scales: list[Any] = [None] * k
    unit = with_diagonal_of_ones(vectors.tril(-1))
    for i in range(k - 1, -1, -1) if transposed else range(k):
        v, t = unit.narrow(-1, i, 1), tau.narrow(-1, i, 1).unsqueeze(-1)
        t = conj(t) if transposed else t
        # The inverse of a reflection 1 - t v v^H is the same with t / (t |v|^2 - 1) in place of t.
        along, scale = v.mH @ result, 1 / (1 - t * (v.mH @ v))
        result = result + v @ (along * (t * scale))
        on_result, on_grad = (along * scale).mH, grad.mH @ v
        by_scale = -(on_grad.mH @ on_result).squeeze(-1)
        by_vector = -(grad @ (conj(t) * on_result)) - result @ (t * on_grad)
        grad = grad - v @ (conj(t) * on_grad.mH)
        scales[i] = conj(by_scale) if transposed else by_scale
        columns[i] = ops.constant_pad_nd(by_vector.narrow(-2, i + 1, m - i - 1), (0, 0, i + 1, 0))
    if vectors.shape[-1] > k:
        columns.append(columns[0].new_zeros((*columns[0].shape[:-1], vectors.shape[-1] - k)))
    return ops.cat(columns, -1), ops.cat(scales, -1)


def with_diagonal_of_ones(x: Any) -> Any:
    """Return matrices with ones on their diagonals, which must be zero."""
    return x + ops.eye(x.shape[-2], x.shape[-1], dtype=x.dtype, device=x.device)


def householder_product(grad: Any, input: Any, tau: Any, result: Any) -> Any:
    if not input.numel() or not tau.numel():
        return None, None
    return _reflections(result, grad, input, tau, False)


def orgqr(grad: Any, input: Any, input2: Any, result: Any) -> Any:
    return householder_product(grad, input, input2, result)


def ormqr(grad: Any, input: Any, input2: Any, input3: Any, left: bool, transpose: bool, result: Any, wanted: Any) -> Any:
    """Return the wanted gradients. The product C Q is treated as the adjoint of Q^H C^H."""
    other = ops.ormqr(input, input2, grad, left, not transpose) if wanted[2] else None
    if not (wanted[0] or wanted[1]) or not input.numel() or not input2.numel() or not input3.numel():
        return None, None, other
    if left:
        return *_reflections(result, grad, input, input2, transpose), other
    return *_reflections(result.mH, grad.mH, input, input2, not transpose), other
