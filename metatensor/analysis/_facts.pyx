"""What one call of an operator reads and writes. Compiled, because a recorder asks for every call."""
cimport cython
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, T_CONTIGUOUS, dim_t
from metatensor._core.dtype import DType
from metatensor._core.device import Device
from metatensor._core.nested import tensors_in

cdef tuple _LEAVES = (int, float, str, bool, complex, DType, Device, type(None))

cdef frozenset _LOOKED_UP = frozenset((
    "embedding nn.functional.embedding nn.functional.embedding_bag _embedding_bag gather index_select take "
    "take_along_dim _index masked_select _masked_select").split())     # they read only the requested elements of their first argument
cdef frozenset _STORED = frozenset(
    "_index_put_ _index_put_accumulate_ index_put_ index_add_ index_copy_ scatter_ scatter_add_".split())   # they write only given elements
cdef frozenset _OVERWRITTEN = frozenset(
    "copy_ fill_ zero_ set_ uniform_ normal_ bernoulli_ random_ exponential_".split())      # they do not read the elements they overwrite
cdef frozenset _LIKE = frozenset((
    "empty_like zeros_like ones_like full_like rand_like randn_like randint_like new_empty new_empty_strided new_zeros "
    "new_ones new_full new_tensor").split())            # they do not read the elements of their argument
cdef frozenset _UNWRITTEN = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split())    # they do not write those of their result
cdef frozenset _PRODUCTS = frozenset("mm bmm matmul addmm baddbmm".split())


cdef int _collect(object values, list found) except -1:
    """Add the tensors among values, and in their containers, to a list."""
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) is list or type(value) is tuple:
            _collect(value, found)
        elif not isinstance(value, _LEAVES):
            found.extend(tensors_in(value))
    return 0


cpdef object size_of(Tensor t):
    """Return the bytes of the distinct elements of a tensor."""
    cdef object elements = t.total
    cdef int i
    if t.total and not t.flags & T_CONTIGUOUS:
        elements = 1            # a Python number: those of overlapping elements may be more than memory has
        for i in range(t.ndim):
            if t.strides[i]:
                elements *= t.sizes[i]
    return elements * t.dtype.itemsize


cdef object _sum(list tensors, Py_ssize_t first):
    cdef object total = 0
    cdef Py_ssize_t i
    for i in range(first, len(tensors)):
        total += size_of(<Tensor>tensors[i])
    return total


cdef bint _shares(Tensor t, list tensors) except -1:
    for other in tensors:
        if (<Tensor>other).storage is t.storage:
            return True
    return False


cdef bint _is_spread(Tensor t) noexcept:
    """Return whether the elements of a tensor are in another order in memory, rather than repeated."""
    cdef bint strided = False, repeated = True
    cdef int i
    for i in range(t.ndim):
        if t.strides[i]:
            strided = True
            if t.sizes[i] != 1:
                repeated = False
    return t.total > 1 and strided and not repeated


cdef dim_t _step(Tensor t) noexcept:
    """Return the distance of neighbours in the last dimension that has several elements."""
    cdef int i
    for i in range(t.ndim - 1, -1, -1):
        if t.sizes[i] > 1:
            return t.strides[i]
    return 1


def form_of_layout(list tensors not None, bint product):
    """Return ``"strided"`` if the last dimension of a tensor is not contiguous, ``"rows"`` if only others are not, else ``""``.

    A `product` reads rows at full speed.
    """
    cdef Tensor t
    cdef bint spread = False
    for t in tensors:
        if not t.flags & T_CONTIGUOUS and _is_spread(t):
            if _step(t) > 1:
                return "strided"
            spread = True
    return "rows" if spread and not product else ""


cdef str _dtype_of(list tensors):
    cdef Tensor t
    cdef str found = ""
    for t in tensors:
        if t.dtype.kind == KIND_FLOAT or t.dtype.kind == KIND_COMPLEX:
            return t.dtype.name
        found = found or t.dtype.name
    return found


@cython.final
cdef class OperatorFacts:
    """What is the same in all calls of an operator.

    Parameters
    ----------
    name, family : str
        Its name, and that of its functional variant.
    still : bool
        Whether it neither reads nor writes elements.
    flops : callable or None
        The rule that counts its operations.
    inplace : int
        The position of its argument ``inplace``, -1 if it has none.
    form : callable or None
        ``form(family, args, kwargs, tensors)`` returns the form of a call. Default: that of the layout of its tensors.
    repeated : callable or None
        ``repeated(family, form, flops, args, tensors)`` returns the bytes that a simple kernel gathers or rereads.
    """
    cdef readonly str name
    cdef str family
    cdef object flops, form, repeated
    cdef int inplace
    cdef bint still, stored, changing, unwritten, like, looked_up, bag, overwritten, product

    def __init__(self, str name not None, str family not None, bint still, flops, int inplace, form, repeated):
        self.name, self.family, self.still, self.flops, self.inplace, self.form, self.repeated = (
            name, family, still, flops, inplace, form, repeated)
        self.stored, self.unwritten, self.like = name in _STORED, name in _UNWRITTEN, name in _LIKE
        self.looked_up, self.bag, self.overwritten = name in _LOOKED_UP, "bag" in name, name in _OVERWRITTEN
        self.changing, self.product = name.endswith("_"), family in _PRODUCTS

    def of_call(self, tuple args not None, dict kwargs not None, out, str phase, str module):
        """Return the fields of the `Call` that is recorded for a call with these arguments and this result."""
        cdef dict given
        cdef list tensors, results
        cdef object flops, form, repeated
        cdef bint changes = False
        if self.still:
            return self.name, 0, 0, 0, "", phase, 0, module, ""
        given = kwargs
        if "out" in kwargs:
            changes = True
            given = {key: value for key, value in kwargs.items() if key != "out"}
        flops = 0 if self.flops is None else self.flops(out, *args, **given)
        tensors, results = [], []
        _collect(args, tensors)
        if given:
            _collect(given.values(), tensors)
        _collect((out,), results)
        form = form_of_layout(tensors, self.product) if self.form is None else self.form(self.family, args, given, tensors)
        if self.inplace >= 0 and form != "off" and not changes:
            changes = args[self.inplace] if len(args) > self.inplace else kwargs.get("inplace")
        read, written = self.moved(tensors, results, changes)
        repeated = self.repeated(self.family, form, flops, args, tensors) if flops and self.repeated is not None else 0
        return self.name, flops, read, written, _dtype_of(tensors or results), phase, repeated, module, form

    cdef tuple moved(self, list tensors, list results, bint changes):
        """Return the bytes that a call reads and writes. `changes` is true if it writes to one of its arguments."""
        cdef object written, found
        cdef Tensor first
        if self.stored:
            return _sum(tensors, 1), max([size_of(<Tensor>t) for t in tensors[1:]], default=0)
        if results and not changes and not self.changing:
            made = [t for t in results if not _shares(<Tensor>t, tensors)]
            if tensors and not made:        # the arguments themselves, or views of them
                return 0, 0
            results = made
        written = 0 if self.unwritten else _sum(results, 0)
        if self.like:
            return 0, written
        if self.looked_up and len(tensors) > 1:
            first, index = tensors[0], tensors[1]
            if first.dtype.kind != KIND_FLOAT and (<Tensor>index).dtype.kind == KIND_FLOAT:
                first, index = index, first
            if self.bag:
                found = (<object>(<Tensor>index).total) * (first.sizes[first.ndim - 1] if first.ndim else 1)
            else:
                found = sum([(<Tensor>t).total for t in results])
            return found * first.dtype.itemsize + size_of(<Tensor>index) + _sum(tensors, 2), written
        return _sum(tensors, 1 if self.overwritten else 0), written
