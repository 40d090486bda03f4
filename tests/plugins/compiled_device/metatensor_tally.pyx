# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tally device: it allocates with malloc, counts every byte, and has kernels in C. It does not use NumPy.

It computes with float32, float64, the signed integers, uint8 and bool. The package also defines an operator,
``tally::axpy``, whose meta kernel is a C function.
"""
cimport cython
from elementwise cimport (
    Operand, Real, Whole, advance, load_real, load_whole, real_at, store_real, store_whole, whole_at,
)
from libc.math cimport ceil, copysign, cos, exp, floor, fmod, log, sin, sqrt, tanh, trunc
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from metatensor._core.dtype cimport BOOL, F32, F64, I8, I16, I32, I64, U8
from metatensor._core.op cimport Call, define, float_arg, tensor_arg, result_device
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport KIND_FLOAT, MAX_DIMS, T_CONJ, T_CONTIGUOUS, T_NEG, dim_t
from metatensor.ops.pointwise cimport elementwise_like

from metatensor.devices import DeviceBackend, OutOfMemoryError
from metatensor.hookspecs import hookimpl
from metatensor.library import kernel as register_kernel


# Memory ---------------------------------------------------------------------------------------------

cdef dim_t in_use = 0, peak = 0, blocks = 0      # changed only while the GIL is held


@cython.final
cdef class Block:
    """Memory from malloc. It is freed together with the last storage that uses it."""
    cdef char* data
    cdef dim_t nbytes

    def __dealloc__(self):
        global in_use, blocks
        if self.data != NULL:
            in_use -= self.nbytes
            blocks -= 1
            free(self.data)


cdef Block new_block(dim_t nbytes):
    global in_use, peak, blocks
    cdef Block block = Block.__new__(Block)
    block.data = <char*>malloc(nbytes if nbytes else 1)
    if block.data == NULL:
        raise OutOfMemoryError(f"tally: cannot allocate {nbytes} bytes; {in_use} are in use by tensors")
    block.nbytes = nbytes
    in_use += nbytes
    blocks += 1
    peak = max(peak, in_use)
    return block


# Operands -------------------------------------------------------------------------------------------

cdef char* memory(Tensor t) except NULL:
    """Return the address of the tensor's first element."""
    if not isinstance(t.storage.data, Block):
        raise RuntimeError(f"a tensor of shape {tuple(t.shape)} on {t.device} is not in memory of tally")
    return (<Block>t.storage.data).data + t.offset * t.dtype.itemsize


cdef bint computes(int code) noexcept:
    return code in (F32, F64, I8, I16, I32, I64, U8, BOOL)


cdef int operand(Operand* o, object value, int ndim) except -1:
    """Fill `o` from a number, or from a tensor broadcast to `ndim` dimensions."""
    cdef Tensor t
    cdef int d, lead
    if not isinstance(value, Tensor):
        if isinstance(value, complex):
            raise NotImplementedError("tally does not compute with complex numbers")
        o.at = NULL
        o.whole = isinstance(value, int)
        o.number = value
        o.integer = value if o.whole else 0
        for d in range(ndim):
            o.steps[d] = 0
        return 0
    t = <Tensor>value
    o.code = t.dtype.code
    if not computes(o.code):
        raise NotImplementedError(f"tally does not compute with {t.dtype.name}")
    o.at = memory(t)
    o.single = False
    o.whole = t.dtype.kind != KIND_FLOAT
    lead = ndim - t.ndim
    for d in range(ndim):
        o.steps[d] = 0 if d < lead or t.sizes[d - lead] == 1 else t.strides[d - lead] * t.dtype.itemsize
    return 0


cdef int elementwise(Tensor out, tuple inputs, Real real, Whole whole) except -1:
    """Compute each element of `out` from the elements of up to three inputs.

    If all inputs and `out` hold integers or bools, compute with integers, else with doubles.
    """
    cdef Operand o[4]
    cdef dim_t index[MAX_DIMS]
    cdef dim_t offsets[4]
    cdef dim_t _, total = out.total
    cdef int k, n = <int>len(inputs) + 1
    cdef bint integers, single = False, double_ = False
    operand(&o[0], out, out.ndim)
    integers = o[0].whole
    for k in range(1, n):
        operand(&o[k], inputs[k - 1], out.ndim)
        integers = integers and o[k].whole
        single = single or (o[k].at != NULL and o[k].code == F32)
        double_ = double_ or (o[k].at != NULL and o[k].code == F64)
        o[k].single = o[k].whole and o[0].code == F32
    for k in range(1, n):       # among float32 tensors, numbers are rounded to float32
        if o[k].at == NULL and single and not double_:
            o[k].number = <float>o[k].number
    for k in range(n, 4):
        o[k] = o[n - 1]
    for k in range(out.ndim):
        index[k] = 0
    for k in range(4):
        offsets[k] = 0
    with nogil:
        for _ in range(total):
            if integers:
                store_whole(o[0].code, o[0].at + offsets[0], whole(
                    whole_at(&o[1], offsets[1]), whole_at(&o[2], offsets[2]), whole_at(&o[3], offsets[3])))
            else:
                store_real(o[0].code, o[0].at + offsets[0], real(
                    real_at(&o[1], offsets[1]), real_at(&o[2], offsets[2]), real_at(&o[3], offsets[3])))
            advance(out.ndim, out.sizes, index, 4, o, offsets)
    return 0


cdef int gather(Tensor t, char* to, bint back) except -1:
    """Copy the elements of a tensor to a dense buffer in C order, or from the buffer to the tensor if `back`."""
    cdef Operand o
    cdef dim_t index[MAX_DIMS]
    cdef dim_t offset = 0, count, total = t.total
    cdef int d, size = t.dtype.itemsize
    if total == 0:
        return 0
    o.at = memory(t)
    for d in range(t.ndim):
        o.steps[d] = t.strides[d] * size
        index[d] = 0
    with nogil:
        if t.flags & T_CONTIGUOUS:
            memcpy(o.at if back else to, to if back else o.at, total * size)
        else:
            for count in range(total):
                if back:
                    memcpy(o.at + offset, to + count * size, size)
                else:
                    memcpy(to + count * size, o.at + offset, size)
                advance(t.ndim, t.sizes, index, 1, &o, &offset)
    return 0


# Kernels --------------------------------------------------------------------------------------------

cdef double r_neg(double a, double b, double c) noexcept nogil: return -a
cdef double r_abs(double a, double b, double c) noexcept nogil: return -a if a < 0 else a + 0.0
cdef double r_exp(double a, double b, double c) noexcept nogil: return exp(a)
cdef double r_log(double a, double b, double c) noexcept nogil: return log(a)
cdef double r_sqrt(double a, double b, double c) noexcept nogil: return sqrt(a)
cdef double r_sin(double a, double b, double c) noexcept nogil: return sin(a)
cdef double r_cos(double a, double b, double c) noexcept nogil: return cos(a)
cdef double r_tanh(double a, double b, double c) noexcept nogil: return tanh(a)
cdef double r_floor(double a, double b, double c) noexcept nogil: return floor(a)
cdef double r_ceil(double a, double b, double c) noexcept nogil: return ceil(a)
cdef double r_relu(double a, double b, double c) noexcept nogil: return 0.0 if a < 0 else a
cdef double r_sigmoid(double a, double b, double c) noexcept nogil: return 1 / (1 + exp(-a))
cdef double r_square(double a, double b, double c) noexcept nogil: return a * a
cdef double r_reciprocal(double a, double b, double c) noexcept nogil: return 1 / a
cdef double r_add(double a, double b, double c) noexcept nogil: return a + c * b
cdef double r_sub(double a, double b, double c) noexcept nogil: return a - c * b
cdef double r_mul(double a, double b, double c) noexcept nogil: return a * b
cdef double r_div(double a, double b, double c) noexcept nogil: return a / b
cdef double r_trunc(double a, double b, double c) noexcept nogil: return trunc(a / b)
cdef double r_floordiv(double a, double b, double c) noexcept nogil:
    cdef double rest, quotient
    if b == 0:
        return a / b
    rest = fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0 and (rest < 0) != (b < 0):
        quotient -= 1
    return floor(quotient + 0.5) if quotient != 0 else copysign(0, a / b)
cdef double r_maximum(double a, double b, double c) noexcept nogil: return a if a >= b or a != a else b
cdef double r_minimum(double a, double b, double c) noexcept nogil: return a if a <= b or a != a else b
cdef double r_eq(double a, double b, double c) noexcept nogil: return a == b
cdef double r_ne(double a, double b, double c) noexcept nogil: return a != b
cdef double r_lt(double a, double b, double c) noexcept nogil: return a < b
cdef double r_le(double a, double b, double c) noexcept nogil: return a <= b
cdef double r_gt(double a, double b, double c) noexcept nogil: return a > b
cdef double r_ge(double a, double b, double c) noexcept nogil: return a >= b
cdef double r_where(double a, double b, double c) noexcept nogil: return b if a != 0 else c
cdef double r_itself(double a, double b, double c) noexcept nogil: return a
cdef int64_t w_neg(int64_t a, int64_t b, int64_t c) noexcept nogil: return -a
cdef int64_t w_abs(int64_t a, int64_t b, int64_t c) noexcept nogil: return -a if a < 0 else a
cdef int64_t w_relu(int64_t a, int64_t b, int64_t c) noexcept nogil: return 0 if a < 0 else a
cdef int64_t w_square(int64_t a, int64_t b, int64_t c) noexcept nogil: return a * a
cdef int64_t w_add(int64_t a, int64_t b, int64_t c) noexcept nogil: return a + c * b
cdef int64_t w_sub(int64_t a, int64_t b, int64_t c) noexcept nogil: return a - c * b
cdef int64_t w_mul(int64_t a, int64_t b, int64_t c) noexcept nogil: return a * b
cdef int64_t w_trunc(int64_t a, int64_t b, int64_t c) noexcept nogil: return a / b if b else 0
cdef int64_t w_floordiv(int64_t a, int64_t b, int64_t c) noexcept nogil:
    return 0 if b == 0 else a / b - (a % b != 0 and (a < 0) != (b < 0))
cdef int64_t w_maximum(int64_t a, int64_t b, int64_t c) noexcept nogil: return a if a > b else b
cdef int64_t w_minimum(int64_t a, int64_t b, int64_t c) noexcept nogil: return a if a < b else b
cdef int64_t w_eq(int64_t a, int64_t b, int64_t c) noexcept nogil: return a == b
cdef int64_t w_ne(int64_t a, int64_t b, int64_t c) noexcept nogil: return a != b
cdef int64_t w_lt(int64_t a, int64_t b, int64_t c) noexcept nogil: return a < b
cdef int64_t w_le(int64_t a, int64_t b, int64_t c) noexcept nogil: return a <= b
cdef int64_t w_gt(int64_t a, int64_t b, int64_t c) noexcept nogil: return a > b
cdef int64_t w_ge(int64_t a, int64_t b, int64_t c) noexcept nogil: return a >= b
cdef int64_t w_where(int64_t a, int64_t b, int64_t c) noexcept nogil: return b if a else c
cdef int64_t w_itself(int64_t a, int64_t b, int64_t c) noexcept nogil: return a


@cython.final
cdef class Kernel:
    """An element-wise kernel: a function of doubles, a function of integers, and the number of arguments they take."""
    cdef Real real
    cdef Whole whole
    cdef int inputs

    def __call__(self, Tensor out not None, *args):
        elementwise(out, args[:self.inputs], self.real, self.whole)


cdef dict table = {}


cdef int row(str name, Real real, Whole whole, int inputs=1) except -1:
    cdef Kernel k = Kernel.__new__(Kernel)
    k.real, k.whole, k.inputs = real, whole, inputs
    table[name] = k
    return 0


row("neg", r_neg, w_neg)
row("abs", r_abs, w_abs)
row("exp", r_exp, w_itself)
row("log", r_log, w_itself)
row("sqrt", r_sqrt, w_itself)
row("sin", r_sin, w_itself)
row("cos", r_cos, w_itself)
row("tanh", r_tanh, w_itself)
row("floor", r_floor, w_itself)
row("ceil", r_ceil, w_itself)
row("relu", r_relu, w_relu)
row("nn.functional.relu", r_relu, w_relu)
row("sigmoid", r_sigmoid, w_itself)
row("square", r_square, w_square)
row("reciprocal", r_reciprocal, w_itself)
row("add", r_add, w_add, 3)
row("sub", r_sub, w_sub, 3)
row("mul", r_mul, w_mul, 2)
row("maximum", r_maximum, w_maximum, 2)
row("minimum", r_minimum, w_minimum, 2)
row("eq", r_eq, w_eq, 2)
row("ne", r_ne, w_ne, 2)
row("lt", r_lt, w_lt, 2)
row("le", r_le, w_le, 2)
row("gt", r_gt, w_gt, 2)
row("ge", r_ge, w_ge, 2)
row("where", r_where, w_where, 3)


cdef bint has_zero(object value) except -1:
    """Return True if a divisor is zero or has an element that is zero."""
    cdef Tensor t
    cdef Operand o
    cdef dim_t index[MAX_DIMS]
    cdef dim_t offset = 0, _
    cdef int d
    if not isinstance(value, Tensor):
        return value == 0
    t = <Tensor>value
    operand(&o, t, t.ndim)
    for d in range(t.ndim):
        index[d] = 0
    for _ in range(t.total):
        if load_real(o.code, o.at + offset) == 0:
            return True
        advance(t.ndim, t.sizes, index, 1, &o, &offset)
    return False


def div(Tensor out not None, input, other, rounding_mode):
    if rounding_mode is None:
        elementwise(out, (input, other), r_div, w_itself)
        return
    if out.dtype.kind != KIND_FLOAT and has_zero(other):
        raise RuntimeError("div: ZeroDivisionError")
    if rounding_mode == "floor":
        elementwise(out, (input, other), r_floordiv, w_floordiv)
    else:
        elementwise(out, (input, other), r_trunc, w_trunc)


def sum_(Tensor out not None, Tensor input not None, dim, keepdim, dtype):
    """Sum in doubles or 64-bit integers. Each sum is rounded once, at the end."""
    cdef Operand o
    cdef dim_t index[MAX_DIMS]
    cdef dim_t offsets[2]
    cdef Operand both[2]
    cdef dim_t step = 1, count, _, total = input.total
    cdef int d
    cdef bint whole
    cdef double* reals
    cdef int64_t* wholes
    dims = range(input.ndim) if not dim and dim != 0 else dim if isinstance(dim, (tuple, list)) else (dim,)
    reduced = {(d + input.ndim) % max(input.ndim, 1) for d in dims}
    operand(&both[0], input, input.ndim)
    operand(&o, out, out.ndim)
    whole = o.whole
    for d in range(input.ndim - 1, -1, -1):     # `both[1].steps` map an element to its sum
        index[d] = 0
        both[1].steps[d] = 0 if d in reduced else step
        if d not in reduced:
            step *= input.sizes[d]
    reals = <double*>calloc(max(step, 1), 8)
    if reals == NULL:
        raise OutOfMemoryError(f"tally: cannot allocate {step * 8} bytes to compute sum; {in_use} are in use by tensors")
    wholes = <int64_t*>reals
    offsets[0] = offsets[1] = 0
    with nogil:
        for _ in range(total):
            if whole:
                wholes[offsets[1]] += load_whole(both[0].code, both[0].at + offsets[0])
            else:
                reals[offsets[1]] += load_real(both[0].code, both[0].at + offsets[0])
            advance(input.ndim, input.sizes, index, 2, both, offsets)
        for d in range(out.ndim):
            index[d] = 0
        offsets[0] = 0
        for count in range(out.total):
            if whole:
                store_whole(o.code, o.at + offsets[0], wholes[count])
            else:
                store_real(o.code, o.at + offsets[0], reals[count])
            advance(out.ndim, out.sizes, index, 1, &o, offsets)
        free(reals)


def mm(Tensor out not None, Tensor input not None, Tensor mat2 not None, out_dtype):
    """Multiply two matrices with any strides."""
    cdef Operand o, a, b
    cdef dim_t i, j, k
    cdef double real
    cdef int64_t whole
    operand(&o, out, 2)
    operand(&a, input, 2)
    operand(&b, mat2, 2)
    with nogil:
        for i in range(out.sizes[0]):
            for j in range(out.sizes[1]):
                real, whole = 0, 0
                for k in range(input.sizes[1]):
                    if o.whole:
                        whole += (load_whole(a.code, a.at + i * a.steps[0] + k * a.steps[1])
                                  * load_whole(b.code, b.at + k * b.steps[0] + j * b.steps[1]))
                    else:
                        real += (load_real(a.code, a.at + i * a.steps[0] + k * a.steps[1])
                                 * load_real(b.code, b.at + k * b.steps[0] + j * b.steps[1]))
                if o.whole:
                    store_whole(o.code, o.at + i * o.steps[0] + j * o.steps[1], whole)
                else:
                    store_real(o.code, o.at + i * o.steps[0] + j * o.steps[1], real)


def cat(Tensor out not None, list tensors not None, dim):
    """Copy each tensor into its part of the result."""
    cdef dim_t start = 0
    for t in tensors:
        if t.dim() == 1 and t.shape[0] == 0:
            continue
        extent = t.shape[dim]
        elementwise(<Tensor?>out.narrow(dim, start, extent), (t,), r_itself, w_itself)
        start += extent


table.update({"div": div, "sum": sum_, "mm": mm, "cat": cat})


# The device -----------------------------------------------------------------------------------------

class TallyBackend(DeviceBackend):
    """The backend of the single tally device, whose memory is the C heap."""

    type = "tally"
    dtypes = frozenset(("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"))

    def allocate(self, nbytes, index):
        self.check_index(max(index, 0))
        return new_block(nbytes)

    def resize(self, handle, old, new, index):
        cdef Block block = new_block(new)
        memcpy(block.data, (<Block?>handle).data, min(<dim_t>old, <dim_t>new))
        return block

    def data_ptr(self, handle):
        return <size_t>(<Block?>handle).data

    def to_host(self, Tensor tensor not None):
        cdef bytearray data = bytearray(tensor.total * tensor.dtype.itemsize)
        gather(tensor, data, False)
        return self.host_bytes(tensor, data)

    def from_host(self, Tensor tensor not None, data):
        cdef bytearray dense = bytearray(self.host_bytes(tensor, data))
        gather(tensor, dense, True)

    def copy(self, Tensor dst not None, Tensor src not None):
        if computes(dst.dtype.code) and computes(src.dtype.code) and not (dst.flags | src.flags) & (T_CONJ | T_NEG):
            elementwise(dst, (src,), r_itself, w_itself)
        else:
            super().copy(dst, src)      # copies through the host

    def kernel(self, name):
        return table.get(name) or super().kernel(name)

    def kernel_names(self):
        return super().kernel_names() | set(table)

    def memory_stats(self, index=None):
        return {"allocated_bytes.all.current": in_use, "allocated_bytes.all.peak": peak, "allocation.all.current": blocks}

    def reset_peak_memory_stats(self, index=None):
        global peak
        peak = in_use


@hookimpl
def metatensor_devices(register):
    register(TallyBackend())


# The operator axpy ----------------------------------------------------------------------------------

cdef object axpy_meta(Call* c):
    """Return a dense tensor with the sizes of `x` and its order of strides. `y` must have the same sizes and dtype."""
    cdef Tensor x = tensor_arg(c, 0), y = tensor_arg(c, 1)
    cdef int d
    if x.ndim != y.ndim or x.dtype is not y.dtype:
        raise RuntimeError(f"tally::axpy(): x and y differ: {tuple(x.shape)} {x.dtype.name}, {tuple(y.shape)} {y.dtype.name}")
    for d in range(x.ndim):
        if x.sizes[d] != y.sizes[d]:
            raise RuntimeError(f"tally::axpy(): x has the shape {tuple(x.shape)}, y {tuple(y.shape)}")
    if x.dtype.kind != KIND_FLOAT:
        raise RuntimeError(f"tally::axpy(): expected floating point, got {x.dtype.name}")
    float_arg(c, 2)
    return elementwise_like(x, x.dtype, result_device(c))


def axpy(Tensor out not None, Tensor x not None, Tensor y not None, a):
    elementwise(out, (y, x, a), r_add, w_add)


@hookimpl
def metatensor_ops(register):
    op = define("tally::axpy(Tensor x, Tensor y, float a=1.0) -> Tensor", axpy_meta, 0, "a * x + y.")
    register_kernel("tally::axpy", "tally")(axpy)
    register(op)
