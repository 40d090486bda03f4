"""Joining, splitting, repeating and reordering."""

from .harness import suite, table

CASES = table(
    "joining",
    """
broadcast_tensors | m.broadcast_tensors(row, one) | np.broadcast_arrays(row, one)
cat | m.cat((a, b)) | np.concatenate((a, b))
cat dim | m.cat([a, b, c], dim=1) | np.concatenate([a, b, c], axis=1)
chunk | m.chunk(t, 2, 2) | np.array_split(t, 2, 2)
column_stack | m.column_stack((a, b)) | np.column_stack((a, b))
dstack | m.dstack((a, b)) | np.dstack((a, b))
flip | m.flip(a, (0, 1)) | np.flip(a, (0, 1)).copy()
fliplr | m.fliplr(a) | np.fliplr(a).copy()
flipud | m.flipud(a) | np.flipud(a).copy()
hsplit | m.hsplit(a, 3) | np.hsplit(a, 3)
hstack | m.hstack((a, b)) | np.hstack((a, b))
meshgrid | m.meshgrid(row, v, indexing="ij") | np.meshgrid(row, v, indexing="ij")
repeat | a.repeat(2, 2) | np.tile(a, (2, 2))
repeat_interleave | m.repeat_interleave(a, 2, dim=1) | np.repeat(a, 2, axis=1)
roll | m.roll(a, 1, 0) | np.roll(a, 1, 0)
rot90 | m.rot90(a) | np.rot90(a).copy()
split | m.split(t, 2, 2) | np.split(t, 2, 2)
split sizes | m.split(t, [1, 3], 2) | np.split(t, [1], 2)
stack | m.stack((a, b)) | np.stack((a, b))
tensor_split | m.tensor_split(t, 2, 2) | np.array_split(t, 2, 2)
tile | m.tile(a, (2, 2)) | np.tile(a, (2, 2))
unbind | m.unbind(t)
vsplit | m.vsplit(a, 2) | np.vsplit(a, 2)
vstack | m.vstack((a, b)) | np.vstack((a, b))
block_diag | m.block_diag(a, b)
cartesian_prod | m.cartesian_prod(row, row)
combinations | m.combinations(row)
dsplit | m.dsplit(t, 2) | np.dsplit(t, 2)
split_with_sizes | m.split_with_sizes(t, [1, 3], 2) | np.split(t, [1], 2)
split_with_sizes_copy | m.split_with_sizes_copy(t, [1, 3], 2)
unbind_copy | m.unbind_copy(t)
unsafe_chunk | m.unsafe_chunk(t, 2, 2)
unsafe_split | m.unsafe_split(t, 2, 2)
""",
)

Joining = suite(CASES)
