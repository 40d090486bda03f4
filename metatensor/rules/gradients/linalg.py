"""Gradients of matrix factorizations, eigenvalues and singular values.

In the formulas, G is the gradient of a result X and dX a differential of it. The loss changes by the real part of
``tr(G.mH @ dX)``.
The formulas follow Giles, "Collected matrix derivative results" (2008), Murray, "Differentiation of the Cholesky
decomposition" (2016), Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010), and for complex
matrices Boeddeker et al., "On the computation of complex-valued gradients" (2017).
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import linalg, ops

__all__ = []

PHASES = 1e-2  # derivatives by a phase up to this count as zero


def difference(a: Any, b: Any) -> Any:
    """Return a - b, where None stands for zero."""
    if b is None:
        return a
    return -b if a is None else a - b


def diagonal_of_ones(x: Any) -> Any:
    """Return the identity of the last dimension of `x`, as a mask."""
    return ops.eye(x.shape[-1], dtype=mt.bool, device=x.device)


def with_diagonal(matrices: Any, diagonal: Any) -> Any:
    """Return copies of matrices with the given diagonals. None stands for zeros."""
    if diagonal is None:
        return matrices.masked_fill(diagonal_of_ones(matrices), 0)
    return ops.diagonal_scatter(matrices, diagonal.to(matrices.dtype), 0, -2, -1)


def gaps(values: Any) -> Any:
    """Return the differences v[j] - v[i], with ones on the diagonal."""
    found = values.unsqueeze(-2) - values.unsqueeze(-1)
    return found.masked_fill(diagonal_of_ones(values), 1)


def need_no_phase(name: str, turned: Any) -> None:
    """Raise if a loss depends on the phases of eigenvectors or singular vectors. `turned` holds its derivatives by them."""
    if not turned.dtype.is_complex:
        return
    try:
        wrong = bool((turned.detach().imag.abs() > PHASES).any())
    except DataDependentError:
        return
    if wrong:
        raise RuntimeError(
            f"{name}(): the gradient is not defined, because the loss depends on the phases of the vectors, which are arbitrary; "
            "a loss must not change when a vector is multiplied by a complex number of magnitude 1"
        )


# Cholesky -------------------------------------------------------------------------------------


def cholesky(grad: Any, factor: Any, upper: bool) -> Any:
    """From A = L L^H: L^-1 dA L^-H is the Hermitian matrix whose halved lower triangle is L^-1 dL."""
    lower, grad = (factor.mH, grad.mH) if upper else (factor, grad)
    half = (lower.mH @ grad).tril()
    whole = (half + half.tril(-1).mH) * 0.5
    inner = linalg.solve_triangular(lower.mH, whole, upper=True, left=True)
    return linalg.solve_triangular(lower, inner, upper=False, left=False)


def cholesky_ex(grad: Any, L: Any, upper: bool) -> Any:
    return cholesky(grad, L, upper)


def old_cholesky(grad: Any, result: Any, upper: bool) -> Any:
    return cholesky(grad, result, upper)


def cholesky_inverse(grad: Any, input: Any, upper: bool, result: Any) -> Any:
    """From X = (L L^H)^-1: dX = -X (dL L^H + L dL^H) X."""
    twice = grad + grad.mH
    if upper:
        return -((input @ result) @ (twice @ result))
    return -((result @ twice) @ (result @ input))


def cholesky_solve(grad: Any, input: Any, input2: Any, upper: bool, result: Any, wanted: Any) -> Any:
    right = ops.cholesky_solve(grad, input2, upper)
    if not wanted[1]:
        return right, None
    outer = right @ result.mH
    twice = outer + outer.mH
    return right, -(input2 @ twice) if upper else -(twice @ input2)


# QR -------------------------------------------------------------------------------------------


def _tall_qr(left: Any, right: Any, q: Any, r: Any) -> Any:
    inner = difference(None if right is None else r @ right.mH, None if left is None else left.mH @ q)
    inner = inner.tril()
    inner = inner + inner.mH
    inner = with_diagonal(inner, inner.diagonal(0, -2, -1) * 0.5)
    whole = q @ inner
    return linalg.solve_triangular(r.mH, whole if left is None else left + whole, upper=False, left=False)


def qr(grads: Any, Q: Any, R: Any, mode: str) -> Any:
    """From A = Q R with R square. A wide R = (R1, R2) adds Q R2, which depends on Q as well."""
    left, right = grads
    if left is None and right is None:
        return None
    if mode == "r":
        raise RuntimeError("linalg.qr(): mode 'r' has no gradient, because that needs Q; use mode 'reduced'")
    m, n = Q.shape[-2], R.shape[-1]
    if mode == "complete" and m > n:
        raise RuntimeError(
            f"linalg.qr(): mode 'complete' has no gradient for matrices with more rows than columns, {m} by {n}; use mode 'reduced'"
        )
    if m >= n:
        return _tall_qr(left, right, Q, R)
    square, rest = R.narrow(-1, 0, m), R.narrow(-1, m, n - m)
    if right is None:
        first = _tall_qr(left, None, Q, square)
        return ops.cat([first, first.new_zeros((*first.shape[:-1], n - m))], -1)
    other = right.narrow(-1, m, n - m)
    through = Q @ rest @ other.mH
    first = _tall_qr(through if left is None else left + through, right.narrow(-1, 0, m), Q, square)
    return ops.cat([first, Q @ other], -1)


# LU -------------------------------------------------------------------------------------------


def _lu(lower_grad: Any, upper_grad: Any, p: Any, lower: Any, upper: Any) -> Any:
    """From A = P L U: L^-1 P^T dA U^-1 = L^-1 dL + dU U^-1. The first term is strictly lower, the second upper triangular.

    Rows or columns beyond the square part depend on only one of the factors.
    """
    k, m, n = lower.shape[-1], lower.shape[-2], upper.shape[-1]
    if m <= n:
        first = lower.narrow(-2, 0, k)
        if upper_grad is not None:
            upper_grad = upper_grad.triu()
        inner = difference(
            None if lower_grad is None else first.mH @ lower_grad, None if upper_grad is None else upper_grad @ upper.mH
        ).tril(-1)
        whole = linalg.solve_triangular(upper.narrow(-1, 0, k).mH, inner, upper=False, left=False)
        if upper_grad is not None:
            whole = whole + upper_grad.narrow(-1, 0, k)
        if n > k:
            whole = ops.cat([whole, _beyond(upper_grad, whole, -1, k, n - k)], -1)
        result = linalg.solve_triangular(first.mH, whole, upper=True, unitriangular=True)
    else:
        if lower_grad is not None:
            lower_grad = lower_grad.tril(-1)
        inner = difference(
            None if upper_grad is None else upper_grad @ upper.mH, None if lower_grad is None else lower.mH @ lower_grad
        ).triu()
        whole = linalg.solve_triangular(lower.narrow(-2, 0, k).mH, inner, upper=True, unitriangular=True)
        if lower_grad is not None:
            whole = whole + lower_grad.narrow(-2, 0, k)
        whole = ops.cat([whole, _beyond(lower_grad, whole, -2, k, m - k)], -2)
        result = linalg.solve_triangular(upper.mH, whole, upper=False, left=False)
    return result if p is None else p @ result


def _beyond(grad: Any, square: Any, dim: int, start: int, length: int) -> Any:
    """Return the part of a gradient beyond the square part, or zeros if there is no gradient."""
    if grad is not None:
        return grad.narrow(dim, start, length)
    shape = list(square.shape)
    shape[dim] = length
    return square.new_zeros(shape)


def lu(grads: Any, P: Any, L: Any, U: Any, pivot: bool) -> Any:
    if grads[1] is None and grads[2] is None:
        return None
    return _lu(grads[1], grads[2], P if pivot else None, L, U)


def lu_factor(grad: Any, LU: Any, pivots: Any, pivot: bool) -> Any:
    p, lower, upper = ops.lu_unpack(LU, pivots, True, pivot)
    k = lower.shape[-1]
    return _lu(grad.narrow(-1, 0, k), grad.narrow(-2, 0, k), p if pivot else None, lower, upper)


def lu_unpack(grads: Any, LU_data_meta: Any) -> Any:
    _, lower, upper = grads
    m, n = LU_data_meta.shape[-2:]
    k = min(m, n)
    if lower is None and upper is None:
        return None
    if m <= n:
        if upper is None:
            return ops.constant_pad_nd(lower.tril(-1), (0, n - k))
        if lower is None:
            return upper.triu()
        square = upper.narrow(-1, 0, k).triu() + lower.tril(-1)
        return square if n == k else ops.cat([square, upper.narrow(-1, k, n - k)], -1)
    if lower is None:
        return ops.constant_pad_nd(upper.triu(), (0, 0, 0, m - k))
    if upper is None:
        return lower.tril(-1)
    square = upper.triu() + lower.narrow(-2, 0, k).tril(-1)
    return ops.cat([square, lower.narrow(-2, k, m - k)], -2)


# Eigenvalues ----------------------------------------------------------------------------------


def eigh(grads: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """From A = V diag(w) V^H: V^H dA V has the diagonal dw, and off it the elements (V^H dV)[i, j] (w[j] - w[i])."""
    by_values, by_vectors = grads
    v = eigenvectors
    if by_vectors is None:
        return None if by_values is None else (v * by_values.unsqueeze(-2)) @ v.mH
    inner = v.mH @ by_vectors
    need_no_phase("linalg.eigh", inner.diagonal(0, -2, -1))
    inner = (inner - inner.mH) * 0.5 / gaps(eigenvalues)
    return v @ (with_diagonal(inner, by_values) @ v.mH)


def eig(grads: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    """From A = V diag(w) V^-1, where the columns of V have norm 1."""
    by_values, by_vectors = grads
    v = eigenvectors
    adjoint = v.mH
    if by_vectors is None:
        return None if by_values is None else linalg.solve(adjoint, by_values.unsqueeze(-1) * adjoint)
    inner = adjoint @ by_vectors
    diagonal = inner.diagonal(0, -2, -1)
    need_no_phase("linalg.eig", diagonal)
    inner = inner - (adjoint @ v) * diagonal.real.unsqueeze(-2)
    inner = with_diagonal(inner / gaps(conj(eigenvalues)), by_values)
    return linalg.solve(adjoint, inner @ adjoint)


# Singular values ------------------------------------------------------------------------------


def svd(grads: Any, U: Any, S: Any, Vh: Any) -> Any:
    """From A = U diag(s) V^H. Columns of U and V beyond the singular values are not used."""
    by_u, by_s, by_vh = grads
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    if U.shape[-1] > k:
        U, by_u = U.narrow(-1, 0, k), None if by_u is None else by_u.narrow(-1, 0, k)
    if Vh.shape[-2] > k:
        Vh, by_vh = Vh.narrow(-2, 0, k), None if by_vh is None else by_vh.narrow(-2, 0, k)
    if by_u is None and by_vh is None:
        if by_s is None:
            return None
        return U @ (by_s.unsqueeze(-1) * Vh) if m >= n else (U * by_s.unsqueeze(-2)) @ Vh
    left = None if by_u is None else U.mH @ by_u
    right = None if by_vh is None else Vh @ by_vh.mH
    left, right = (None if x is None else x - x.mH for x in (left, right))
    if U.dtype.is_complex:
        both = [x.diagonal(0, -2, -1) for x in (left, right) if x is not None]
        need_no_phase("linalg.svd", both[0] if len(both) == 1 else both[0] + both[1])
    parts = []
    if left is not None:
        parts.append(left * S.unsqueeze(-2))
    if right is not None:
        parts.append(S.unsqueeze(-1) * right)
    inner = (parts[0] if len(parts) == 1 else parts[0] + parts[1]) / gaps(S * S)
    diagonal = by_s
    if U.dtype.is_complex and left is not None:
        turned = left.diagonal(0, -2, -1) / (2 * S)
        diagonal = turned if by_s is None else turned + by_s
    inner = with_diagonal(inner, diagonal)
    if m > k and by_u is not None:
        scaled = by_u / S.unsqueeze(-2)
        return (U @ inner + scaled - U @ (U.mH @ scaled)) @ Vh
    if n > k and by_vh is not None:
        scaled = by_vh / S.unsqueeze(-1)
        return U @ (inner @ Vh + scaled - (scaled @ Vh.mH) @ Vh)
    return U @ (inner @ Vh) if m >= n else (U @ inner) @ Vh


def eigvals_through(input: Any) -> Any:
    return linalg.eig(input)[0]


def eigvalsh_through(input: Any, UPLO: str) -> Any:
    return linalg.eigh(input, UPLO)[0]


def svdvals_through(A: Any, driver: Any) -> Any:
    return linalg.svd(A, False, driver=driver)[1]


# Pseudoinverses -------------------------------------------------------------------------------


def pseudoinverse(grad: Any, input: Any, result: Any) -> Any:
    """From Golub and Pereyra (1973). The order of the products keeps intermediate matrices small."""
    a, p = input, result
    adjoint, turned = p.mH, grad.mH
    if a.shape[-2] <= a.shape[-1]:
        inner = turned @ p
        left = inner @ adjoint
        return -(p @ inner).mH + left - (a @ p) @ left + (adjoint @ p) @ (turned - inner @ a)
    inner = p @ turned
    right = adjoint @ inner
    return -(inner @ p).mH + (turned - a @ inner) @ (p @ adjoint) + right - (right @ p) @ a
