"""Recurrent networks: stacked layers over whole sequences (rnn_tanh, rnn_relu, lstm, gru), and single steps."""
from metatensor._core import errors
from metatensor._core.dtype cimport I64
from metatensor._core.layout cimport mul_dims
from metatensor._core.op cimport (
    FUNCTION_ONLY, MIXED, OPTION_A, RANDOM, Call, arg, bool_arg, define, float_arg, int_arg, is_none, op_flags, op_name,
    result_device, tensor_arg, tensors_arg,
)
from metatensor._core.random cimport take_ticket
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, KIND_INT, dim_t
from metatensor.ops.operands cimport Operands, no_operands, refuse, shape_operand
from metatensor.ops.pointwise cimport elementwise_result
from metatensor.ops.spatial cimport fail
from metatensor._core.gradients import recorded_as

cdef enum: RELU = OPTION_A     # the op uses relu rather than tanh


cdef struct Network:
    int gates               # blocks of rows in a weight: 4 for lstm, 3 for gru, 1 for a plain rnn
    bint cells              # there are cell states in addition to the hidden states (lstm)
    bint packed             # input is (rows, features) with batch sizes, not (time, batch, features)
    bint batch_first
    dim_t layers            # not multiplied by `directions`
    dim_t directions        # 2 if bidirectional, else 1
    dim_t hidden
    dim_t width             # output features per direction: `hidden`, or the projection's width
    dim_t batch
    dim_t rows              # time steps summed over all sequences
    int per_layer           # parameters per layer and direction


cdef int expect(Call* c, Tensor t, str what, tuple shape) except -1:
    if tuple(t.shape) != shape:
        fail(c, f"expected {what} of shape {list(shape)}, got {shape_str(t)}")
    return 0


cdef int one_kind(Call* c, Tensor first, Tensor t, str what) except -1:
    """Raise unless `t` has the device and dtype of the input `first`."""
    if t.storage.device is not first.storage.device:
        raise errors.different_devices(op_name(c), (first.storage.device, t.storage.device))
    if t.dtype is not first.dtype:
        fail(c, f"{what} must have the dtype of the input, {first.dtype.name}, got {t.dtype.name}")
    return 0


cdef int need_computable(Call* c, Tensor t) except -1:
    """Raise for unsupported dtypes. tanh ops support floating-point and complex inputs. relu ops support floating-point
    and integer inputs."""
    cdef bint relu = (op_flags(c) & RELU) != 0
    if (t.dtype.kind == KIND_COMPLEX and relu) or (t.dtype.kind == KIND_FLOAT and t.dtype.itemsize == 1):
        refuse(c, t.dtype)
    if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX and not (relu and t.dtype.kind == KIND_INT):
        fail(c, f"expected an input of a floating-point dtype, got {t.dtype.name}")
    return 0


cdef int read_input(Call* c, Network* n, Tensor t) except -1:
    cdef int batch_dim = 0 if n.batch_first else 1
    if n.packed:
        if t.ndim != 2:
            fail(c, f"expected packed data of 2 dimensions, (rows, features), got shape {shape_str(t)}")
        n.rows = t.sizes[0]
        return 0
    if t.ndim != 3:
        fail(c, f"expected an input of 3 dimensions, got shape {shape_str(t)}")
    if t.sizes[1 - batch_dim] == 0:
        fail(c, f"the sequence is empty: input of shape {shape_str(t)}")
    n.batch = t.sizes[batch_dim]
    n.rows = mul_dims(t.sizes[0], t.sizes[1])
    return 0


cdef int check_batch_sizes(Call* c, Tensor data, Tensor sizes) except -1:
    if sizes.ndim != 1 or sizes.dtype.code != I64 or sizes.total == 0:
        fail(c, f"batch_sizes must be a vector of int64, got {sizes.dtype.name} of shape {shape_str(sizes)}")
    if sizes.storage.device.type != "cpu" and not sizes.storage.device.type == data.storage.device.type == "meta":
        fail(c, f"batch_sizes must be on the cpu, got {sizes.storage.device}")
    return 0


cdef int read_states(Call* c, Network* n, Tensor first, list states) except -1:
    """Read the initial states, each (layers * directions, batch, size): hidden states and, for lstm, cell states."""
    cdef Tensor h, cell
    if n.cells and len(states) != 2:
        fail(c, f"expected two states, hidden and cell, got {len(states)}")
    for h in states:
        if h.ndim != 3:
            fail(c, f"expected states of 3 dimensions, (layers, batch, size), got shape {shape_str(h)}")
        one_kind(c, first, h, "the states")
    h = <Tensor>states[0]
    cell = <Tensor>states[1 if n.cells else 0]
    n.width = h.sizes[2]
    n.hidden = cell.sizes[2]
    if n.packed:
        n.batch = h.sizes[1]
    expect(c, h, "the hidden state", (mul_dims(n.layers, n.directions), n.batch, n.width))
    expect(c, cell, "the cell" if n.cells else "the hidden state", (n.layers * n.directions, n.batch, n.hidden))
    return 0


cdef int check_layer(Call* c, Network* n, Tensor first, list params, Py_ssize_t start, dim_t features,
                     bint biases) except -1:
    """Check the parameters of one layer in one direction.

    They are the weights for the input and the hidden state, two optional biases, and an optional projection.
    """
    cdef dim_t high = mul_dims(n.gates, n.hidden)
    cdef Py_ssize_t i
    for i in range(start, start + n.per_layer):
        one_kind(c, first, <Tensor>params[i], "the parameters")
    expect(c, <Tensor>params[start], "the weight of the input", (high, features))
    expect(c, <Tensor>params[start + 1], "the weight of the hidden state", (high, n.width))
    if biases:
        for i in range(start + 2, start + 4):
            expect(c, <Tensor>params[i], "a bias", (high,))
    if n.width != n.hidden:
        expect(c, <Tensor>params[start + n.per_layer - 1], "the projection", (n.width, n.hidden))
    return 0


cdef int read_parameters(Call* c, Network* n, Tensor first, list params, bint biases) except -1:
    cdef dim_t features = first.sizes[first.ndim - 1]
    cdef dim_t i, total = mul_dims(n.layers, n.directions)
    n.per_layer = 2 + (2 if biases else 0) + (1 if n.width != n.hidden else 0)
    if len(params) != mul_dims(total, n.per_layer):
        fail(c, f"expected {n.per_layer} parameters for each of {total} layers, counted once for each direction, "
                f"got {len(params)}")
    for i in range(total):
        check_layer(c, n, first, params, i * n.per_layer, features if i < n.directions else n.width * n.directions,
                    biases)
    return 0


cdef object results(Call* c, Network* n, Tensor first):
    """Return the outputs of the last layer, the final hidden states and, for lstm, the final cell states."""
    cdef dim_t sizes[3]
    cdef dim_t strides[3]
    cdef dim_t wide = mul_dims(n.directions, n.width)
    cdef Tensor out, h
    if n.packed:
        sizes[0], sizes[1] = n.rows, wide
        out = new_contiguous(2, sizes, first.dtype, result_device(c))
    else:
        sizes[0], sizes[1], sizes[2] = first.sizes[0], first.sizes[1], wide
        if n.batch_first:           # computed as (time, batch, features), then transposed
            strides[0], strides[1], strides[2] = max(wide, 1), max(mul_dims(sizes[0], wide), 1), 1
            out = new_strided(3, sizes, strides, first.dtype, result_device(c))
        else:
            out = new_contiguous(3, sizes, first.dtype, result_device(c))
    sizes[0], sizes[1], sizes[2] = mul_dims(n.layers, n.directions), n.batch, n.width
    h = new_contiguous(3, sizes, first.dtype, result_device(c))
    if not n.cells:
        return (out, h)
    sizes[2] = n.hidden
    return (out, h, new_contiguous(3, sizes, first.dtype, result_device(c)))


cdef object recurrent(Call* c, int gates, bint cells, bint packed):
    """Meta kernel of all ops on sequences.

    Arguments: input, states, parameters, has_biases, num_layers, dropout, train, bidirectional, batch_first. If
    `packed`: data, batch_sizes, states, parameters, has_biases, num_layers, dropout, train, bidirectional.
    """
    cdef Network n
    cdef Tensor first = tensor_arg(c, 0)
    cdef int s = 2 if packed else 1             # slot of the states; those of the later arguments follow
    cdef double p = float_arg(c, s + 4)
    n.gates, n.cells, n.packed = gates, cells, packed
    n.layers = int_arg(c, s + 3)
    n.directions = 2 if bool_arg(c, s + 6) else 1
    n.batch_first = not packed and bool_arg(c, s + 7)
    n.batch = 0
    if n.layers < 1:
        fail(c, f"num_layers must be positive, got {n.layers}")
    read_input(c, &n, first)
    if packed:
        check_batch_sizes(c, first, tensor_arg(c, 1))
    read_states(c, &n, first, tensors_arg(c, s) if cells else [arg(c, s)])
    read_parameters(c, &n, first, tensors_arg(c, s + 1), bool_arg(c, s + 2))
    need_computable(c, first)
    if p != 0 and bool_arg(c, s + 5) and n.layers > 1:
        if not 0 <= p <= 1:
            fail(c, f"dropout must lie in [0, 1], got {p}")
        take_ticket(c, 9)
    return results(c, &n, first)


cdef object lstm(Call* c):
    return recurrent(c, 4, True, False)


cdef object lstm_packed(Call* c):
    return recurrent(c, 4, True, True)


cdef object gru(Call* c):
    return recurrent(c, 3, False, False)


cdef object gru_packed(Call* c):
    return recurrent(c, 3, False, True)


cdef object rnn(Call* c):
    return recurrent(c, 1, False, False)


cdef object rnn_packed(Call* c):
    return recurrent(c, 1, False, True)


cdef int check_state(Call* c, Tensor first, Tensor h, dim_t hidden, str what) except -1:
    if h.ndim == 0 or h.sizes[0] != first.sizes[0]:
        fail(c, f"the {what} of shape {shape_str(h)} does not have the batch size of the input of shape "
                f"{shape_str(first)}")
    if h.ndim < 2:
        raise IndexError(f"{op_name(c)}(): the {what} needs 2 dimensions, got shape {shape_str(h)}")
    return expect(c, h, f"a {what}", (first.sizes[0], hidden))


cdef object step(Call* c, int gates, list states):
    """Meta kernel of one step for an input (batch, features) and states (batch, hidden).

    Slots 2 to 5 are the two weights and the two biases.
    """
    cdef Tensor first = tensor_arg(c, 0), w_ih = tensor_arg(c, 2), w_hh = tensor_arg(c, 3), t
    cdef dim_t hidden, high
    cdef int i
    if first.ndim < 2 or w_ih.ndim < 2 or w_hh.ndim < 2:
        raise IndexError(f"{op_name(c)}(): input and weights need 2 dimensions, got {shape_str(first)}, "
                         f"{shape_str(w_ih)} and {shape_str(w_hh)}")
    hidden = w_hh.sizes[1]
    high = mul_dims(gates, hidden)
    expect(c, first, "an input", (first.sizes[0], w_ih.sizes[1]))
    for i in range(len(states)):
        check_state(c, first, <Tensor>states[i], hidden, "cell" if i else "hidden state")
    expect(c, w_ih, "w_ih", (high, w_ih.sizes[1]))
    expect(c, w_hh, "w_hh", (high, hidden))
    for i in range(4, 6):
        if not is_none(c, i):
            expect(c, tensor_arg(c, i), "a bias", (high,))
    for t in states + [arg(c, i) for i in range(2, 6) if not is_none(c, i)]:
        one_kind(c, first, t, "states and parameters")
    need_computable(c, first)
    t = <Tensor>states[0]
    made = [new_contiguous(2, t.sizes, first.dtype, result_device(c)) for _ in states]
    return made[0] if len(made) == 1 else tuple(made)


cdef object lstm_cell(Call* c):
    cdef list states = tensors_arg(c, 1)
    if len(states) != 2:
        fail(c, f"expected two states, hidden and cell, got {len(states)}")
    return step(c, 4, states)


cdef object gru_cell(Call* c):
    """Order the result's strides like those of the state, because PyTorch computes it element-wise from the state."""
    cdef Operands o
    cdef Tensor made = <Tensor>step(c, 3, [arg(c, 1)])
    no_operands(&o)
    shape_operand(&o, tensor_arg(c, 1))
    shape_operand(&o, made)
    return elementwise_result(c, &o, made.dtype)


cdef object rnn_cell(Call* c):
    return step(c, 1, [arg(c, 1)])


cdef str _rest = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
cdef str _random = "*, generator? generator=None"
cdef str _cell = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"

define(f"lstm(Tensor input, Tensor[] hx, {_rest}, bool batch_first, {_random}) -> (Tensor, Tensor, Tensor)", lstm,
       FUNCTION_ONLY | RANDOM,
       "Apply layers of long short-term memory (Hochreiter and Schmidhuber, 1997) to sequences (time, batch, "
       "features), or to packed data (rows, features) with `batch_sizes`. Returns the outputs of the last layer, the "
       "final hidden states and the final cell states.")
define(f"lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, {_rest}, {_random}) -> (Tensor, Tensor, Tensor)",
       lstm_packed, FUNCTION_ONLY | RANDOM | MIXED)
define(f"gru(Tensor input, Tensor hx, {_rest}, bool batch_first, {_random}) -> (Tensor, Tensor)", gru,
       FUNCTION_ONLY | RANDOM,
       "Apply layers of gated recurrent units (Cho et al., 2014) to sequences (time, batch, features), or to packed "
       "data (rows, features) with `batch_sizes`. Return the outputs of the last layer and the final hidden states.")
define(f"gru.data(Tensor data, Tensor batch_sizes, Tensor hx, {_rest}, {_random}) -> (Tensor, Tensor)", gru_packed,
       FUNCTION_ONLY | RANDOM | MIXED)
define(f"rnn_tanh(Tensor input, Tensor hx, {_rest}, bool batch_first, {_random}) -> (Tensor, Tensor)", rnn,
       FUNCTION_ONLY | RANDOM,
       "Apply layers of h' = tanh(w_ih x + b_ih + w_hh h + b_hh) to sequences (time, batch, features), or to packed "
       "data (rows, features) with `batch_sizes`. Return the outputs of the last layer and the final hidden states.")
define(f"rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, {_rest}, {_random}) -> (Tensor, Tensor)",
       rnn_packed, FUNCTION_ONLY | RANDOM | MIXED)
define(f"rnn_relu(Tensor input, Tensor hx, {_rest}, bool batch_first, {_random}) -> (Tensor, Tensor)", rnn,
       FUNCTION_ONLY | RANDOM | RELU,
       "Apply layers of h' = relu(w_ih x + b_ih + w_hh h + b_hh) to sequences (time, batch, features), or to packed "
       "data (rows, features) with `batch_sizes`. Return the outputs of the last layer and the final hidden states.")
define(f"rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, {_rest}, {_random}) -> (Tensor, Tensor)",
       rnn_packed, FUNCTION_ONLY | RANDOM | MIXED | RELU)
define(f"lstm_cell(Tensor input, Tensor[] hx, {_cell}) -> (Tensor, Tensor)", lstm_cell, FUNCTION_ONLY,
       "Compute one step of `lstm` for an input (batch, features). Returns the next hidden and cell states, (batch, "
       "hidden).")
define(f"gru_cell(Tensor input, Tensor hx, {_cell}) -> Tensor", gru_cell, FUNCTION_ONLY,
       "Compute one step of `gru` for an input (batch, features). Returns the next hidden state, (batch, hidden).")
define(f"rnn_tanh_cell(Tensor input, Tensor hx, {_cell}) -> Tensor", rnn_cell, FUNCTION_ONLY,
       "Compute one step of `rnn_tanh` for an input (batch, features). Returns the next hidden state, (batch, hidden).")
define(f"rnn_relu_cell(Tensor input, Tensor hx, {_cell}) -> Tensor", rnn_cell, FUNCTION_ONLY | RELU,
       "Compute one step of `rnn_relu` for an input (batch, features). Returns the next hidden state, (batch, hidden).")

for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    recorded_as(_name, f"recurrent.{_name}")
    recorded_as(f"{_name}.data", f"recurrent.{_name}_data")
    recorded_as(f"{_name}_cell", f"recurrent.{_name}_cell")
