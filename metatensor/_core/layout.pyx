"""Layouts: sizes, strides and offsets as plain values, independent of tensors, dtypes and devices.

Strides and offsets are in elements. Products are checked and raise RuntimeError if
they exceed 63 bits.
"""
from metatensor._core.types cimport (
    FORMAT_CHANNELS_LAST, FORMAT_CHANNELS_LAST_3D, FORMAT_CONTIGUOUS, MAX_DIMS, dim_t,
)


cdef int size_overflow(dim_t a, dim_t b, str sign) except -1:
    raise RuntimeError(f"sizes are too large: {a} {sign} {b} elements or bytes exceed 63 bits")


cdef dim_t checked_count(int ndim, const dim_t* sizes) except -1:
    """Do what `count` does, for sizes that are zero, negative or too large."""
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


cdef int set_format(int ndim, const dim_t* sizes, dim_t* strides, int memory_format) except -1:
    """Write dense strides in a memory format to `strides`.

    In channels-last formats, every dimension that lies outside an empty one in memory has stride 0.
    """
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
    """Return True if a 4-d or 5-d layout is dense with the channels, dimension 1, innermost."""
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
    """Return True if strides increase in the order C, last to first spatial dimension, N. Gaps are allowed."""
    cdef dim_t bound = 0
    cdef int inner = 1, outer = ndim - 1, _i
    if ndim != 4 and ndim != 5 or strides[1] <= 0:
        return False
    for _i in range(ndim - 1):
        bound = strides[inner] * sizes[inner]
        if bound == 0 or strides[outer] < bound:
            return False
        inner = outer
        outer = outer - 1 if outer > 2 else 0
    # A layout with C = H = W = 1 and equal strides fits both formats. It counts as contiguous.
    return sizes[0] != 0 and bound != strides[1]


cdef int suggest_format(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Return the memory format that ops such as convolution preserve."""
    if ndim == 4 and is_channels_last_strides(4, sizes, strides):
        return FORMAT_CHANNELS_LAST
    if ndim == 5 and is_channels_last_strides(5, sizes, strides):
        return FORMAT_CHANNELS_LAST_3D
    return FORMAT_CONTIGUOUS


cdef bint is_dense(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Return True if the layout is non-overlapping and dense: some permutation of its dimensions is contiguous."""
    cdef int order[MAX_DIMS]
    cdef int i, j, k, n = 0
    cdef dim_t expected = 1
    if ndim == 1:
        return sizes[0] < 2 or strides[0] == 1
    for i in range(ndim):
        if sizes[i] < 2:            # the stride does not matter, as in PyTorch
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
    """Return the number of elements that a storage must have beyond the offset to hold the layout."""
    cdef dim_t n = 1
    cdef int i
    for i in range(ndim):
        if sizes[i] == 0:
            return 0
    for i in range(ndim):
        n = add_dims(n, mul_dims(sizes[i] - 1, strides[i]))
    return n


cdef int preserve_strides(int ndim, const dim_t* sizes, const dim_t* strides, dim_t* out) except -1:
    """Write the strides of `empty_like` to `out`: the given ones if dense, else dense ones in the same order."""
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
    """Broadcast `to.sizes` with `sizes` in place. Return 1 if that is impossible, else 0."""
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
    """Return True if `sizes` can be expanded to `to_sizes`."""
    cdef int i, shift = to_ndim - ndim
    if shift < 0:
        return False
    for i in range(ndim):
        if sizes[i] != 1 and sizes[i] != to_sizes[i + shift]:
            return False
    return True


cdef int view_strides(int ndim, const dim_t* sizes, const dim_t* strides,
                      int new_ndim, const dim_t* new_sizes, dim_t* new_strides) except -1:
    """Write the strides of a view with `new_sizes` to `new_strides`. Return 1, or 0 if only a copy can have that shape.

    Both shapes must have equally many elements.
    """
    cdef dim_t step, run, used = 1
    cdef int d = ndim - 1, i
    if count(ndim, sizes) == 0:
        if ndim == new_ndim and dims_equal(sizes, new_sizes, ndim):
            copy_dims(new_strides, strides, ndim)
        else:
            row_major(new_ndim, new_sizes, new_strides)
        return 1
    if ndim == 0:
        for i in range(new_ndim):
            new_strides[i] = 1
        return 1
    # The old dimensions form runs of elements that are `step` apart. Each new dimension must lie within one run.
    step = strides[d]
    run = next_run(sizes, strides, step, &d)
    for i in range(new_ndim - 1, -1, -1):
        if used == run and new_sizes[i] != 1:
            step = strides[d]
            run = next_run(sizes, strides, step, &d)
            used = 1
        new_strides[i] = used * step
        used *= new_sizes[i]
        if used > run:
            return 0
    return 1


cdef inline dim_t next_run(const dim_t* sizes, const dim_t* strides, dim_t step, int* d) noexcept:
    """Return the length of the longest run of elements `step` apart that ends at dimension `d`.

    Set `d` to the dimension before the run.
    """
    cdef dim_t run = 1
    while d[0] >= 0 and (sizes[d[0]] == 1 or strides[d[0]] == run * step):
        run *= sizes[d[0]]
        d[0] -= 1
    return run


cdef int infer_size(int ndim, dim_t* sizes, dim_t total) except -1:
    """Replace a size of -1 so that the product of the sizes is `total`.

    Return 0 on success, 1 if the sizes do not fit, 2 if there are several -1, 3 if another size is negative, and 4 if
    the -1 is ambiguous because the other sizes and `total` are 0.
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
    """Write the dense strides of an element-wise result to `out`, which holds the sizes.

    Dimensions are ordered by the strides of the inputs, innermost first. Some pairs cannot be compared, so the result
    depends on the sorting algorithm. This is PyTorch's insertion sort: a dimension is compared with those inside it,
    one after the other, and swapped with each that belongs outside. It stops at the first one that belongs inside.
    """
    cdef int order[MAX_DIMS]
    cdef int i, at, inside, sign, ndim = out.ndim
    cdef bint row = True
    cdef dim_t step = 1
    for i in range(ndim):
        order[i] = ndim - 1 - i
    for i in range(1, ndim):
        at = i
        for inside in range(i - 1, -1, -1):
            sign = compare_dims(n, ndims, sizes, strides, out, order[inside], order[at])
            if sign < 0:
                break
            if sign > 0:
                order[inside], order[at] = order[at], order[inside]
                at = inside
    for i in range(ndim):
        row &= order[i] == ndim - 1 - i
    if row:
        return row_major(ndim, out.sizes, out.strides)
    for i in range(ndim):
        out.strides[order[i]] = step
        step = mul_dims(step, out.sizes[order[i]])      # 0 for dimensions outside an empty one, as in PyTorch
    return 0


cdef inline dim_t stride_at(int ndim, const dim_t* sizes, const dim_t* strides, const Layout* out, int dim) noexcept:
    """Return the stride of an input in dimension `dim` of the result, or 0 if the input is broadcast there."""
    dim -= out.ndim - ndim
    if dim < 0 or (sizes[dim] == 1 and out.sizes[dim + out.ndim - ndim] != 1):
        return 0
    return strides[dim]


cdef inline int compare_dims(int n, const int* ndims, const dim_t** sizes, const dim_t** strides, const Layout* out,
                             int p, int q) noexcept:
    """Return -1 if dimension `p` belongs inside `q`, 1 if outside, 0 if undecided.

    The first input in which `p` and `q` have different strides decides. An input is skipped if either stride is 0. If
    the strides are equal and the result is larger in `p`, then `p` belongs outside.
    """
    cdef dim_t a, b
    cdef int k
    for k in range(n):
        a = stride_at(ndims[k], sizes[k], strides[k], out, p)
        b = stride_at(ndims[k], sizes[k], strides[k], out, q)
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if out.sizes[p] > out.sizes[q]:
            return 1
    return 0


cdef int overlap(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Return 1 if an expanded dimension makes several indices refer to one element, else 0. Ignore other overlaps."""
    cdef bint repeats = False
    cdef int i
    for i in range(ndim):
        if sizes[i] == 0:
            return 0
        repeats = repeats or (strides[i] == 0 and sizes[i] > 1)
    return repeats


# Python interface to the functions above, for tests and tools.

cdef int _read(object seq, dim_t* to) except -1:
    cdef int i = 0
    for value in seq:
        if i == MAX_DIMS:
            raise RuntimeError(f"at most {MAX_DIMS} dimensions are supported")
        to[i] = value
        i += 1
    return i


def contiguous_strides(sizes):
    """Return the contiguous strides, in elements, for a sequence of sizes."""
    cdef dim_t a[MAX_DIMS]
    cdef dim_t b[MAX_DIMS]
    cdef int n = _read(sizes, a)
    row_major(n, a, b)
    return tuple([b[i] for i in range(n)])


def compute_view_strides(sizes, strides, new_sizes):
    """Return the strides of a view with `new_sizes`, or None if only a copy can have that shape."""
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
    """Return the shape to which `shapes` broadcast, as a tuple. Each shape is an int or several ints.

    Raise RuntimeError if two shapes do not broadcast or if a size is negative.
    """
    cdef Layout lay
    cdef dim_t a[MAX_DIMS]
    cdef int n, i
    lay.ndim = 0
    for shape in shapes:
        if not isinstance(shape, int) and any([isinstance(size, float) for size in shape]):
            raise TypeError(f"broadcast_shapes: sizes must be ints, got {tuple(shape)}")
        n = _read((shape,) if isinstance(shape, int) else shape, a)
        for i in range(n):
            if a[i] < 0:
                raise RuntimeError(f"broadcast_shapes: negative size {a[i]} in {tuple(shape)}")
        if broadcast_into(&lay, n, a):
            raise RuntimeError("broadcast_shapes: shapes do not broadcast: "
                               + ", ".join(str(s) for s in shapes))
    return tuple([lay.sizes[i] for i in range(lay.ndim)])


def is_non_overlapping_and_dense(sizes, strides):
    """Return True if some permutation of the dimensions is contiguous."""
    cdef dim_t a[MAX_DIMS]
    cdef dim_t b[MAX_DIMS]
    cdef int n = _read(sizes, a)
    if _read(strides, b) != n:
        raise ValueError("sizes and strides differ in length")
    return is_dense(n, a, b)
