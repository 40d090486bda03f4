"""Matrix products."""

from .harness import suite, table

CASES = table(
    "matmul",
    """
a @ w | a @ s | a @ s
addbmm | m.addbmm(m1, t, u)
addmm | m.addmm(a, a, s)
addmv | m.addmv(g, w, row)
addr | m.addr(s, row, row)
baddbmm | m.baddbmm(m2, t, u)
bmm | m.bmm(t, u) | np.matmul(t, u)
cdist | m.cdist(a, b)
cross | m.cross(a, b, dim=1) | np.cross(a, b)
dot | m.dot(row, row) | np.dot(row, row)
einsum | m.einsum("ij,jk->ik", a, s) | np.einsum("ij,jk->ik", a, s)
F.bilinear | F.bilinear(a, a, m3)
F.linear | F.linear(a, w)
F.linear bias | F.linear(a, w, g)
inner | m.inner(row, row) | np.inner(row, row)
kron | m.kron(a, s) | np.kron(a, s)
linalg.multi_dot | m.linalg.multi_dot([a, s, s]) | np.linalg.multi_dot([a, s, s])
matmul | m.matmul(a, s) | np.matmul(a, s)
matmul 3d | m.matmul(t, v) | np.matmul(t, v)
mm | m.mm(a, s) | np.dot(a, s)
mv | m.mv(a, row) | np.dot(a, row)
outer | m.outer(row, g) | np.outer(row, g)
tensordot | m.tensordot(t, u, dims=([2, 0], [1, 0])) | np.tensordot(t, u, axes=([2, 0], [1, 0]))
vdot | m.vdot(row, row) | np.vdot(row, row)
""",
)

Matmul = suite(CASES)
