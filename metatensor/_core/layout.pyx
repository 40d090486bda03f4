"""Sizes, strides and offsets as plain values: no tensor, dtype or device in sight.

Strides and offsets are in elements. Every product that could pass 63 bits is
checked and raises RuntimeError.
"""
from metatensor._core.types cimport (
    FORMAT_CHANNELS_LAST, FORMAT_CHANNELS_LAST_3D, FORMAT_CONTIGUOUS, MAX_DIMS, dim_t,
)


cdef int size_overflow(dim_t a, dim_t b, str sign) except -1:
    raise RuntimeError(f"sizes beyond 63 bits: {a} {sign} {b} is more than any tensor can have of elements or bytes")


cdef dim_t count(int ndim, const dim_t* sizes) except -1:
    """Number of elements. A negative size is a RuntimeError: nothing can be made with one."""
    cdef dim_t n = 1
    cdef bint empty = False
    cdef int i
    for i in range(ndim):
        if sizes[i] <= 0:
            if sizes[i] < 0:
                raise RuntimeError(f"negative size {sizes[i]} at dimension {i} of "
                                   f"{[sizes[k] for k in range(ndim)]}")
            empty = True
    if empty:
        return 0
    for i in range(ndim):
        n = mul_dims(n, sizes[i])
    return n


cdef int row_major(int ndim, const dim_t* sizes, dim_t* strides) except -1:
    """Fill in contiguous strides; a dimension of size 0 counts as 1."""
    cdef dim_t step = 1
    cdef int i
    for i in range(ndim - 1, -1, -1):
        strides[i] = step
        if sizes[i] > 1:
            step = mul_dims(step, sizes[i])
    return 0


cdef int set_format(int ndim, const dim_t* sizes, dim_t* strides, int memory_format) except -1:
    """Dense strides in a memory format; in the channels-last ones an empty dimension makes those outside it 0."""
    cdef dim_t step = 1
    cdef int i
    if memory_format == FORMAT_CHANNELS_LAST:
        if ndim != 4:
            raise RuntimeError(f"required rank 4 tensor to use channels_last format, got rank {ndim}")
    elif memory_format == FORMAT_CHANNELS_LAST_3D:
        if ndim != 5:
            raise RuntimeError(f"required rank 5 tensor to use channels_last_3d format, got rank {ndim}")
    else:
        return row_major(ndim, sizes, strides)
    strides[1] = 1
    step = sizes[1]
    for i in range(ndim - 1, 1, -1):
        strides[i] = step
        step = mul_dims(step, sizes[i])
    strides[0] = step
    return 0


cdef bint is_channels_last(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Dense with the channel (dimension 1) innermost; 4-d and 5-d only."""
    cdef dim_t expected = 1
    cdef int i
    if ndim != 4 and ndim != 5:
        return False
    if sizes[1] != 1:
        if strides[1] != 1:
            return False
        expected = sizes[1]
    for i in range(ndim - 1, 1, -1):
        if sizes[i] != 1:
            if strides[i] != expected:
                return False
            expected *= sizes[i]
    return sizes[0] == 1 or strides[0] == expected


cdef bint is_channels_last_strides(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Whether strides fall in the order N, spatial..., C (possibly with gaps)."""
    cdef dim_t least = 0
    cdef int i
    if ndim != 4 and ndim != 5:
        return False
    if strides[1] == 0:
        return False
    i = 1
    while True:
        if sizes[i] == 0 or strides[i] < least:
            return False
        # N111 tensors look like both formats; they count as contiguous.
        if i == 0 and least == strides[1]:
            return False
        least = strides[i]
        if sizes[i] > 1:
            least *= sizes[i]
        if i == 0:
            return True
        i = ndim - 1 if i == 1 else (i - 1 if i > 2 else 0)


cdef int suggest_format(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """The memory format that an op like convolution keeps."""
    if ndim == 4 and is_channels_last_strides(4, sizes, strides):
        return FORMAT_CHANNELS_LAST
    if ndim == 5 and is_channels_last_strides(5, sizes, strides):
        return FORMAT_CHANNELS_LAST_3D
    return FORMAT_CONTIGUOUS


cdef bint is_dense(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Non-overlapping and dense: some permutation of the dimensions is contiguous."""
    cdef int order[MAX_DIMS]
    cdef int i, j, k, n = 0
    cdef dim_t expected = 1
    if ndim == 1:
        return sizes[0] < 2 or strides[0] == 1
    for i in range(ndim):
        if sizes[i] < 2:            # no condition on its stride, as in PyTorch
            if sizes[i] == 0:
                return True
            continue
        j = n
        while j > 0 and strides[order[j - 1]] > strides[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
        n += 1
    for k in range(n):
        if strides[order[k]] != expected:
            return False
        expected *= sizes[order[k]]
    return True


cdef dim_t extent(int ndim, const dim_t* sizes, const dim_t* strides) except? -1:
    """Elements that a storage needs beyond the offset to hold this layout."""
    cdef dim_t n = 1
    cdef int i
    for i in range(ndim):
        if sizes[i] == 0:
            return 0
    for i in range(ndim):
        n = add_dims(n, mul_dims(sizes[i] - 1, strides[i]))
    return n


cdef int preserve_strides(int ndim, const dim_t* sizes, const dim_t* strides, dim_t* out) except -1:
    """Strides of `empty_like`: kept when dense, else dense in the same order of dimensions."""
    cdef const dim_t* shape = sizes
    cdef const dim_t* step = strides
    cdef Layout lay
    cdef int i
    if is_dense(ndim, sizes, strides):
        for i in range(ndim):
            out[i] = strides[i]
        return 0
    lay.ndim = ndim
    copy_dims(lay.sizes, sizes, ndim)
    elementwise_strides(1, &ndim, &shape, &step, &lay)
    copy_dims(out, lay.strides, ndim)
    return 0


cdef int broadcast_into(Layout* to, int ndim, const dim_t* sizes) except -1:
    """Broadcast `to.sizes` with `sizes` in place; returns 1 where they do not fit, else 0."""
    cdef int i, shift
    cdef dim_t a, b
    if ndim > to.ndim:
        shift = ndim - to.ndim
        for i in range(to.ndim - 1, -1, -1):
            to.sizes[i + shift] = to.sizes[i]
        for i in range(shift):
            to.sizes[i] = 1
        to.ndim = ndim
    shift = to.ndim - ndim
    for i in range(ndim):
        a = to.sizes[i + shift]
        b = sizes[i]
        if a == b or b == 1:
            continue
        if a != 1:
            return 1
        to.sizes[i + shift] = b
    return 0


cdef bint can_broadcast(int ndim, const dim_t* sizes, int to_ndim, const dim_t* to_sizes) noexcept nogil:
    """Whether `sizes` expands to exactly `to_sizes`."""
    cdef int i, shift = to_ndim - ndim
    if shift < 0:
        return False
    for i in range(ndim):
        if sizes[i] != 1 and sizes[i] != to_sizes[i + shift]:
            return False
    return True


cdef int view_strides(int ndim, const dim_t* sizes, const dim_t* strides,
                      int new_ndim, const dim_t* new_sizes, dim_t* new_strides) except -1:
    """Strides that show the same elements as `new_sizes` without a copy.

    Returns 1 on success and 0 where no such strides exist. Both shapes must
    have the same number of elements.
    """
    cdef dim_t total = count(ndim, sizes)
    cdef dim_t chunk_base, tensor_numel = 1, view_numel = 1
    cdef int d, view_d = new_ndim - 1
    if total == 0:
        if ndim == new_ndim and dims_equal(sizes, new_sizes, ndim):
            copy_dims(new_strides, strides, ndim)
        else:
            row_major(new_ndim, new_sizes, new_strides)
        return 1
    if ndim == 0:
        for d in range(new_ndim):
            new_strides[d] = 1
        return 1
    # Walk from the innermost dimension; each maximal run of old dimensions
    # that is contiguous with itself can be cut up freely.
    chunk_base = strides[ndim - 1]
    for d in range(ndim - 1, -1, -1):
        tensor_numel *= sizes[d]
        if d == 0 or (sizes[d - 1] != 1 and strides[d - 1] != tensor_numel * chunk_base):
            while view_d >= 0 and (view_numel < tensor_numel or new_sizes[view_d] == 1):
                new_strides[view_d] = view_numel * chunk_base
                view_numel *= new_sizes[view_d]
                view_d -= 1
            if view_numel != tensor_numel:
                return 0
            if d > 0:
                chunk_base = strides[d - 1]
                tensor_numel = 1
                view_numel = 1
    return view_d == -1


cdef int infer_size(int ndim, dim_t* sizes, dim_t total) except -1:
    """Replace one -1 so that the product is `total`.

    Returns 0 on success, 1 where the sizes do not fit, 2 for several -1,
    3 for another negative size, 4 where -1 is ambiguous (a product of 0).
    """
    cdef dim_t n = 1
    cdef int i, unknown = -1
    for i in range(ndim):
        if sizes[i] == -1:
            if unknown >= 0:
                return 2
            unknown = i
        elif sizes[i] < 0:
            return 3
        elif MT_MUL_OVERFLOW(n, sizes[i], &n):
            return 1
    if unknown < 0:
        return 0 if n == total else 1
    if n == 0:
        return 4 if total == 0 else 1
    if total % n:
        return 1
    sizes[unknown] = total // n
    return 0


cdef int elementwise_strides(int n, const int* ndims, const dim_t** sizes, const dim_t** strides,
                             Layout* out) except -1:
    """Dense strides of an element-wise result whose sizes are in `out`.

    The dimensions are put in the order of the inputs' strides, the first input
    weighing most, as PyTorch's iterator does: an insertion sort that swaps two
    dimensions only where some input tells them apart.
    """
    cdef int perm[MAX_DIMS]
    cdef int i, d0, dim0, dim1, k, verdict, ndim = out.ndim
    cdef int p0, p1, shift
    cdef dim_t s0, s1, step
    for i in range(ndim):
        perm[i] = ndim - 1 - i
    for i in range(1, ndim):
        dim1 = i
        for dim0 in range(i - 1, -1, -1):
            p0 = perm[dim0]
            p1 = perm[dim1]
            verdict = 0
            for k in range(n):
                shift = ndim - ndims[k]
                # Broadcast dimensions have stride 0 and say nothing.
                s0 = 0 if p0 < shift or (sizes[k][p0 - shift] == 1 and out.sizes[p0] != 1) \
                    else strides[k][p0 - shift]
                s1 = 0 if p1 < shift or (sizes[k][p1 - shift] == 1 and out.sizes[p1] != 1) \
                    else strides[k][p1 - shift]
                if s0 == 0 or s1 == 0:
                    continue
                if s0 < s1:
                    verdict = -1
                    break
                if s0 > s1:
                    verdict = 1
                    break
                if out.sizes[p0] > out.sizes[p1]:
                    verdict = 1
                    break
            if verdict > 0:
                perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
                dim1 = dim0
            elif verdict < 0:
                break
    for i in range(ndim):
        if perm[i] != ndim - 1 - i:
            break
    else:
        return row_major(ndim, out.sizes, out.strides)
    step = 1
    for i in range(ndim):
        d0 = perm[i]
        out.strides[d0] = step
        step = mul_dims(step, out.sizes[d0])    # 0 from an empty dimension on, as PyTorch has it
    return 0


cdef int overlap(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """1 where two indices share an element for certain (an expanded dimension), else 0."""
    cdef bint repeats = False
    cdef int i
    for i in range(ndim):
        if sizes[i] == 0:
            return 0
        repeats = repeats or (strides[i] == 0 and sizes[i] > 1)
    return repeats


# A Python face of the pure functions above, for tests and for tools.

cdef int _read(object seq, dim_t* to) except -1:
    cdef int i = 0
    for value in seq:
        if i == MAX_DIMS:
            raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported")
        to[i] = value
        i += 1
    return i


def contiguous_strides(sizes):
    """Row-major strides, in elements, for `sizes` (a sequence of ints)."""
    cdef dim_t a[MAX_DIMS]
    cdef dim_t b[MAX_DIMS]
    cdef int n = _read(sizes, a)
    row_major(n, a, b)
    return tuple([b[i] for i in range(n)])


def compute_view_strides(sizes, strides, new_sizes):
    """Strides of a view with `new_sizes`, or None where only a copy can have them."""
    cdef dim_t a[MAX_DIMS]
    cdef dim_t b[MAX_DIMS]
    cdef dim_t c[MAX_DIMS]
    cdef dim_t d[MAX_DIMS]
    cdef int n = _read(sizes, a), m = _read(new_sizes, c)
    if _read(strides, b) != n:
        raise ValueError("sizes and strides differ in length")
    if count(n, a) != count(m, c):
        raise ValueError(f"shape {tuple(new_sizes)} is invalid for {count(n, a)} elements")
    if not view_strides(n, a, b, m, c, d):
        return None
    return tuple([d[i] for i in range(m)])


def broadcast_shapes(*shapes):
    """The broadcast of several shapes (each an int or a sequence of ints), as a tuple.

    Raises RuntimeError where two shapes do not fit or a size is negative.
    """
    cdef Layout lay
    cdef dim_t a[MAX_DIMS]
    cdef int n, i
    lay.ndim = 0
    for shape in shapes:
        n = _read((shape,) if isinstance(shape, int) else shape, a)
        for i in range(n):
            if a[i] < 0:
                raise RuntimeError(f"broadcast_shapes: negative size {a[i]} in {tuple(shape)}")
        if broadcast_into(&lay, n, a):
            raise RuntimeError("broadcast_shapes: shapes do not broadcast: "
                               + ", ".join(str(s) for s in shapes))
    return tuple([lay.sizes[i] for i in range(lay.ndim)])


def is_non_overlapping_and_dense(sizes, strides):
    """Whether some permutation of the dimensions is contiguous."""
    cdef dim_t a[MAX_DIMS]
    cdef dim_t b[MAX_DIMS]
    cdef int n = _read(sizes, a)
    if _read(strides, b) != n:
        raise ValueError("sizes and strides differ in length")
    return is_dense(n, a, b)
