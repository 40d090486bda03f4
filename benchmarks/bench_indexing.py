"""Indexing, reading and writing; gather, scatter and embedding."""

from .harness import suite, table

CASES = table(
    "indexing",
    """
t[0] | t[0] | t[0]
t[:, 1] | t[:, 1] | t[:, 1]
t[..., 1:3] | t[..., 1:3] | t[..., 1:3]
t[None] | t[None] | t[None]
t[j] | t[j] | t[j]
t[:, j] | t[:, j] | t[:, j]
t[j, j] | t[j, j] | t[j, j]
t[0] = 1 | t[0] = 1.0 | t[0] = 1.0
t[:, 1] = x | t[:, 1] = v | t[:, 1] = v
t[j] = x | t[j] = 1.0 | t[j] = 1.0
F.embedding | F.embedding(j, w) | w[j]
gather | m.gather(a, 1, i) | np.take_along_axis(a, i, 1)
index_add | m.index_add(a, 0, j, b)
index_copy | m.index_copy(a, 0, j, b)
index_fill | m.index_fill(a, 0, j, 1.0)
index_put_ | y.index_put_((j,), row)
index_select | m.index_select(a, 0, j) | np.take(a, j, 0)
masked_fill | m.masked_fill(a, k, 0.0) | np.where(k, 0.0, a)
masked_scatter | m.masked_scatter(a, k, b)
put_ | y.put_(j, two) | np.put(y, j, two)
scatter | m.scatter(a, 1, i, b)
scatter_add | m.scatter_add(a, 1, i, b)
scatter_reduce | m.scatter_reduce(a, 1, i, b, "sum")
select_scatter | m.select_scatter(a, row, 0, 1)
slice_scatter | m.slice_scatter(t, one4, 1, 0, 1)
diagonal_scatter | m.diagonal_scatter(s, row)
take | m.take(a, j) | np.take(a, j)
take_along_dim | m.take_along_dim(a, i, 1) | np.take_along_axis(a, i, 1)
F.embedding_bag | F.embedding_bag(i, w)
index_put | m.index_put(a, (j,), row)
index_reduce | m.index_reduce(a, 0, j, b, "prod")
put | m.put(a, j, two)
nonzero_static | m.nonzero_static(a, size=2)
""",
)

Indexing = suite(CASES)
