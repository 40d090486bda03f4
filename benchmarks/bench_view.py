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
""",
)

View = suite(CASES)
