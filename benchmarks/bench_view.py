"""Views: the result shares the input's storage."""

from .harness import suite, table

CASES = table(
    "view",
    """
a.T | a.T | a.T
a.mT | t.mT | t.mT
as_strided | m.as_strided(a, (3, 2), (1, 3)) | np.lib.stride_tricks.as_strided(a, (3, 2), (4, 12))
atleast_3d | m.atleast_3d(a) | np.atleast_3d(a)
broadcast_to | m.broadcast_to(row, (2, 3)) | np.broadcast_to(row, (2, 3))
contiguous | a.contiguous() | np.ascontiguousarray(a)
detach | a.detach()
diagonal | m.diagonal(s) | np.diagonal(s)
expand | one.expand(2, 3, 4) | np.broadcast_to(one, (2, 3, 4))
expand_as | one.expand_as(t)
flatten | m.flatten(t) | np.ravel(t)
movedim | m.movedim(t, 0, 2) | np.moveaxis(t, 0, 2)
narrow | m.narrow(t, 2, 1, 2) | t[:, :, 1:3]
permute | m.permute(t, (2, 0, 1)) | np.transpose(t, (2, 0, 1))
a.permute | t.permute(2, 0, 1) | t.transpose(2, 0, 1)
ravel | m.ravel(t) | np.ravel(t)
reshape | m.reshape(t, (4, 6)) | np.reshape(t, (4, 6))
a.reshape | t.reshape(4, 6) | t.reshape(4, 6)
select | m.select(t, 0, 1) | t[1]
squeeze | m.squeeze(one) | np.squeeze(one)
squeeze dim | m.squeeze(one, 0) | np.squeeze(one, 0)
swapaxes | m.swapaxes(t, 0, 1) | np.swapaxes(t, 0, 1)
t | m.t(a) | np.transpose(a)
transpose | m.transpose(t, 0, 1) | np.swapaxes(t, 0, 1)
unflatten | m.unflatten(t, 2, (2, 2)) | np.reshape(t, (2, 3, 2, 2))
unfold | t.unfold(2, 2, 1) | np.lib.stride_tricks.sliding_window_view(t, 2, 2)
unsqueeze | m.unsqueeze(a, 0) | np.expand_dims(a, 0)
view | t.view(4, 6) | t.reshape(4, 6)
view infer | t.view(-1, 4) | t.reshape(-1, 4)
view dtype | a.view(m.int32) | a.view(np.int32)
view_as | a.view_as(b)
view_as_real | m.view_as_real(z)
a.H | z.H
alias_copy | m.alias_copy(a) | np.copy(a)
as_strided_copy | m.as_strided_copy(a, (3, 2), (1, 3))
as_strided_scatter | m.as_strided_scatter(a, row, (3,), (1,))
atleast_1d | m.atleast_1d(a) | np.atleast_1d(a)
atleast_2d | m.atleast_2d(row) | np.atleast_2d(row)
diagonal_copy | m.diagonal_copy(s) | np.diagonal(s).copy()
expand_copy | m.expand_copy(one, (2, 3, 4)) | np.broadcast_to(one, (2, 3, 4)).copy()
narrow_copy | m.narrow_copy(t, 2, 1, 2) | t[:, :, 1:3].copy()
permute_copy | m.permute_copy(t, (2, 0, 1)) | np.transpose(t, (2, 0, 1)).copy()
reshape_as | a.reshape_as(b) | a.reshape(b.shape)
resize_ | y.resize_(2, 3)
resolve_conj | m.resolve_conj(a)
resolve_neg | m.resolve_neg(a)
squeeze_copy | m.squeeze_copy(one) | np.squeeze(one).copy()
sum_to_size | a.sum_to_size(1, 3) | np.sum(a, axis=0, keepdims=True)
t_copy | m.t_copy(a) | a.T.copy()
transpose_copy | m.transpose_copy(t, 0, 1) | np.swapaxes(t, 0, 1).copy()
unfold_copy | m.unfold_copy(t, 2, 2, 1)
unsqueeze_copy | m.unsqueeze_copy(a, 0) | np.expand_dims(a, 0).copy()
view_as_complex | m.view_as_complex(pairs)
view_copy | m.view_copy(t, (4, 6)) | t.reshape(4, 6).copy()
""",
)

View = suite(CASES)
