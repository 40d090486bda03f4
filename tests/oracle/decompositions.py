"""Checks of matrix decompositions. Their results are not unique and cannot be compared element by element.

``RULES`` maps the name of an operator to a function of its arguments (a tuple and a dict), the module's results and
PyTorch's results. It returns None, or a description of the error. Factors may differ by signs, phases or the basis of a
subspace.
"""

import torch

from .judging import difference
from .twins import tensors

# Tolerance of a reconstruction, relative to the largest element. PyTorch's tests of linear algebra have it too.
_NEAR = {torch.float32: 1e-4, torch.complex64: 1e-4, torch.float64: 1e-8, torch.complex128: 1e-8}


def _near(what, got, wanted):
    if got.numel() == 0:
        return None
    tolerance = _NEAR.get(wanted.dtype, 1e-4)
    scale = max(float(wanted.abs().max()), 1.0)
    far = float((got - wanted).abs().max())
    return None if far <= tolerance * scale else f"{what} is {far:.2e} off"


def _orthonormal(what, columns):
    n = columns.shape[-1]
    if 0 in columns.shape:
        return None
    unit = torch.eye(n, dtype=columns.dtype).expand(*columns.shape[:-2], n, n)
    return _near(f"{what}' {what}", columns.mH @ columns, unit)


def _diagonal(values, dtype):
    return torch.diag_embed(values).to(dtype)


def _svd(a, u, s, vh, theirs_s):
    k = s.shape[-1]
    return (
        _near("the singular values", s, theirs_s)
        or _near("U S Vh", u[..., :k] @ _diagonal(s, a.dtype) @ vh[..., :k, :], a)
        or _orthonormal("U", u)
        or _orthonormal("V", vh.mH)
    )


def linalg_svd(args, kwargs, ours, theirs):
    return _svd(args[0], *ours, theirs[1])


def svd(args, kwargs, ours, theirs):
    u, s, v = ours
    if not any(t.any() for t in (theirs[0], theirs[2])):  # compute_uv=False
        return difference(ours, theirs, 1e-4, 1e-4)
    return _svd(args[0], u, s, v.mH, theirs[1])


def svd_lowrank(args, kwargs, ours, theirs):
    a = args[0] @ args[1].mT - (0 if kwargs.get("M") is None else kwargs["M"])
    return _low_rank(a, ours, theirs)


def pca_lowrank(args, kwargs, ours, theirs):
    a = args[0] @ args[1].mT
    return _low_rank(a - a.mean(-2, keepdim=True) if kwargs.get("center", True) else a, ours, theirs)


def _low_rank(a, ours, theirs):
    """Check a randomized low-rank approximation: its error must be similar to that of PyTorch's result."""
    u, s, v = ours
    far, allowed = (torch.linalg.matrix_norm(a - x @ _diagonal(y, a.dtype) @ z.mH) for x, y, z in (ours, theirs))
    worse = far > 2 * allowed + _NEAR[a.dtype] * torch.linalg.matrix_norm(a)
    return "U S V' is too far off" if worse.any() else _orthonormal("U", u) or _orthonormal("V", v)


def eigh(args, kwargs, ours, theirs):
    values, vectors = ours
    if tensors(ours)[1].numel() == 0:
        return None
    # Only one triangle is used.
    wanted = theirs[1] @ _diagonal(theirs[0], theirs[1].dtype) @ theirs[1].mH
    return (
        _near("the eigenvalues", values, theirs[0])
        or _near("V L V'", vectors @ _diagonal(values, vectors.dtype) @ vectors.mH, wanted)
        or _orthonormal("V", vectors)
    )


def eig(args, kwargs, ours, theirs):
    values, vectors = ours
    if vectors.numel() == 0:
        return None
    a = args[0].to(vectors.dtype)
    return (
        eigvals(args, kwargs, values, theirs[0])
        or _near("A V - V L", a @ vectors, vectors @ _diagonal(values, vectors.dtype))
        or _near("the length of eigenvectors", torch.linalg.vector_norm(vectors, dim=-2), torch.ones_like(values.real))
    )


def eigvals(args, kwargs, ours, theirs):
    """Compare eigenvalues in any order: match each one with the nearest unmatched one."""
    if theirs.numel() == 0:
        return None
    for mine, its in zip(ours.reshape(-1, ours.shape[-1]), theirs.reshape(-1, theirs.shape[-1])):
        left = its.clone()
        for value in mine:
            nearest = (left - value).abs().argmin()
            problem = _near("an eigenvalue", value, left[nearest])
            if problem:
                return problem
            left = torch.cat([left[:nearest], left[nearest + 1 :]])
    return None


def qr(args, kwargs, ours, theirs):
    q, r = ours
    if 0 in theirs[0].shape:  # mode "r"
        return _near("R' R", r.mH @ r, theirs[1].mH @ theirs[1])
    return (
        _near("Q R", q @ r, args[0]) or _orthonormal("Q", q) or (None if torch.equal(r, r.triu()) else "R is not a triangle")
    )


def geqrf(args, kwargs, ours, theirs):
    a, tau = ours
    q = torch.linalg.householder_product(a[..., : tau.shape[-1]] if a.shape[-1] > a.shape[-2] else a, tau)
    return _near("Q R", q[..., : tau.shape[-1]] @ a.triu()[..., : tau.shape[-1], :], args[0])


def lu_factor(args, kwargs, ours, theirs):
    a, pivots = args[0], ours[1]
    p, lower, upper = torch.lu_unpack(ours[0], pivots)
    return _near("P L U", p @ lower @ upper, a)


def lu(args, kwargs, ours, theirs):
    p, lower, upper = ours
    return _near("P L U", (p @ lower if p.numel() else lower) @ upper, args[0])


def ldl_factor(args, kwargs, ours, theirs):
    a = args[0]
    if a.numel() == 0:
        return None
    unit = torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape).clone()
    hermitian = kwargs.get("hermitian", False)
    solved = [torch.linalg.ldl_solve(factors[0], factors[1], unit, hermitian=hermitian) for factors in (ours, theirs)]
    return _near("the inverse", *solved)


RULES = {
    "linalg.svd": linalg_svd, "svd": svd, "svd_lowrank": svd_lowrank, "pca_lowrank": pca_lowrank, "linalg.eigh": eigh,
    "linalg.eig": eig, "linalg.eigvals": eigvals, "qr": qr, "linalg.qr": qr, "geqrf": geqrf, "lu": lu_factor,
    "linalg.lu_factor": lu_factor, "linalg.lu_factor_ex": lu_factor, "linalg.lu": lu, "linalg.ldl_factor": ldl_factor,
    "linalg.ldl_factor_ex": ldl_factor,
}  # fmt: skip
