"""Recurrent networks and cells: values and metadata compared with PyTorch, packed sequences, dropout, errors, FLOPs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor.analysis import estimate
from ops.against import agree, flat, metadata, tensors_of, twin
from ops.pairs import same, values

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
CELLS = {"lstm_cell": 4, "gru_cell": 3, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}


def parameter_shapes(gates, features, hidden, layers, directions, bias, projection):
    width = projection or hidden
    shapes = []
    for layer in range(layers):
        own = [(gates * hidden, features if layer == 0 else width * directions), (gates * hidden, width)]
        own += [(gates * hidden,)] * 2 * bias + [(projection, hidden)] * bool(projection)
        shapes += own * directions
    return shapes


@st.composite
def networks(draw):
    name = draw(st.sampled_from(sorted(GATES)))
    features, hidden = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    layers, directions = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    bias = draw(st.booleans())
    projection = draw(st.integers(0, hidden - 1)) if name == "lstm" else 0
    params = parameter_shapes(GATES[name], features, hidden, layers, directions, bias, projection)
    return name, features, hidden, layers, directions, bias, projection, params


def states(name, layers, batch, hidden, projection):
    return [(layers, batch, projection or hidden)] + [(layers, batch, hidden)] * (name == "lstm")


def caller(name, n_states, *rest, packed=None):
    """Return a function of a flat list of tensors: the input, the states, the parameters."""

    def call(lib, x, *tensors):
        hx, params = list(tensors[:n_states]), list(tensors[n_states:])
        given = (x,) if packed is None else (x, lib.tensor(packed, device="cpu"))
        return getattr(lib, name)(*given, hx if name == "lstm" else hx[0], params, *rest)

    return call


@pytest.mark.torch
@given(networks(), st.integers(1, 5), st.integers(0, 3), st.booleans(), st.sampled_from(["float32", "float64", "complex64"]))
@settings(max_examples=80)
def test_sequences(network, time, batch, batch_first, dtype):
    name, features, hidden, layers, directions, bias, projection, params = network
    hx = states(name, layers * directions, batch, hidden, projection)
    x = (batch, time, features) if batch_first else (time, batch, features)
    call = caller(name, len(hx), bias, layers, 0.0, False, directions == 2, batch_first)
    agree(call, *tensors_of(0, x, *hx, *params, dtype=dtype), tolerance=1e-5)


@pytest.mark.torch
@given(networks(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
@settings(max_examples=60)
def test_packed(network, lengths):
    name, features, hidden, layers, directions, bias, projection, params = network
    sizes = [sum(length > t for length in lengths) for t in range(max(lengths))]
    hx = states(name, layers * directions, len(lengths), hidden, projection)
    call = caller(name, len(hx), bias, layers, 0.0, False, directions == 2, packed=sizes)
    arguments = tensors_of(1, (sum(sizes), features), *hx, *params, dtype="float64")
    theirs = call(__import__("torch"), *arguments)
    ours = call(mt, *(twin(t) for t in arguments))
    assert metadata(ours) == metadata(theirs) == metadata(call(mt, *(twin(t, "meta") for t in arguments)))
    same(tuple(flat(ours)), tuple(flat(theirs)), 1e-6)


@pytest.mark.torch
@given(
    st.sampled_from(sorted(CELLS)),
    st.tuples(*[st.integers(0, 4)] * 3),
    st.booleans(),
    st.sampled_from(["float32", "float64", "bfloat16"]),
)
@settings(max_examples=60)
def test_cells(name, sizes, bias, dtype):
    (batch, features, hidden), gates = sizes, CELLS[name]
    hx = [(batch, hidden)] * (2 if name == "lstm_cell" else 1)
    shapes = [(batch, features), *hx, (gates * hidden, features), (gates * hidden, hidden), *[(gates * hidden,)] * 2 * bias]

    def call(lib, x, *tensors):
        state = list(tensors[: len(hx)])
        return getattr(lib, name)(x, state if len(hx) == 2 else state[0], *tensors[len(hx) :])

    agree(call, *tensors_of(0, *shapes, dtype=dtype), tolerance=5e-2 if dtype == "bfloat16" else 1e-5)


SEQUENCE = {"input": (5, 3, 4), "h": (2, 3, 6), "c": (2, 3, 6)}


@pytest.mark.torch
@pytest.mark.parametrize(
    "change",
    [
        {"input": (0, 3, 4)},
        {"input": (5, 3, 5)},
        {"input": (5, 2, 4)},
        {"input": (2, 5, 3, 4)},
        {"h": (1, 3, 6), "c": (1, 3, 6)},
        {"h": (2, 2, 6), "c": (2, 2, 6)},
        {"h": (2, 3, 5), "c": (2, 3, 5)},
        {"c": (2, 3, 5)},
        {"params": -1},
        {"biases": False},
        {"both": True},
        {"dropout": 1.5},
        {"dropout": -0.5},
        {"dtype": "int64"},
        {"other": "float32"},
    ],
    ids=str,
)
def test_errors_like_torch(change):
    shapes = {**SEQUENCE, **{k: v for k, v in change.items() if k in SEQUENCE}}
    params = parameter_shapes(4, 4, 6, 2, 1, True, 0)[: change.get("params")]
    tensors = tensors_of(0, *shapes.values(), *params, dtype=change.get("dtype", "float64"))
    if "other" in change:
        tensors[0] = tensors[0].float()
    call = caller("lstm", 2, change.get("biases", True), 2, change.get("dropout", 0.0), True, change.get("both", False), False)
    agree(call, *tensors)


@pytest.mark.parametrize(
    "words, call",
    [
        ("3 dimensions", lambda x, h, p: mt.gru(x[0], h, p, False, 1, 0.0, False, False, False)),
        ("states of 3 dimensions", lambda x, h, p: mt.gru(x, h[0], p, False, 1, 0.0, False, False, False)),
        ("num_layers must be positive", lambda x, h, p: mt.gru(x, h, p, False, 0, 0.0, False, False, False)),
        ("got 2", lambda x, h, p: mt.gru(x, h, p, True, 1, 0.0, False, False, False)),
        ("expected two states", lambda x, h, p: mt.lstm(x, [h], p, False, 1, 0.0, False, False, False)),
        ("packed data of 2 dimensions", lambda x, h, p: mt.gru(x, mt.empty(2, dtype=mt.int64), h, p, False, 1, 0.0, False, False)),
        ("batch_sizes must be a vector", lambda x, h, p: mt.gru(x[0], x[0], h, p, False, 1, 0.0, False, False)),
        ("does not have the batch size", lambda x, h, p: mt.gru_cell(x[0], h[:, 0], *p)),
    ],
)  # fmt: skip
def test_errors(words, call):
    mt.set_default_device("meta")
    x, h, *params = (mt.empty(s, device="meta") for s in [(5, 3, 4), (1, 3, 2), (6, 4), (6, 2)])
    with pytest.raises(RuntimeError, match=words):
        call(x, h, params)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["rnn_relu", "gru"])
@pytest.mark.parametrize("dtype", ["complex64", "int64", "float8_e4m3fn", "float16"])
def test_dtypes(name, dtype):
    torch = pytest.importorskip("torch")
    shapes = [(5, 3, 4), (1, 3, 2), (GATES[name] * 2, 4), (GATES[name] * 2, 2)]
    call = caller(name, 1, False, 1, 0.0, False, False, False)
    made = [torch.ones(s).to(getattr(torch, dtype)) for s in shapes]
    try:
        theirs = call(torch, *made)
    except Exception as error:
        for device in ("meta", "cpu"):
            with pytest.raises(type(error)):
                call(mt, *(mt.ones(s, device=device).to(getattr(mt, dtype)) for s in shapes))
    else:
        for device in ("meta", "cpu"):
            assert metadata(call(mt, *(mt.ones(s, device=device).to(getattr(mt, dtype)) for s in shapes))) == metadata(theirs)


def test_batch_sizes_that_do_not_fit(device):
    tensors = [mt.ones(s, device=device) for s in [(5, 4), (1, 3, 2), (6, 4), (6, 2)]]
    for sizes in ([3, 3], [2, 2, 1], [2, 3]):
        with pytest.raises(RuntimeError, match="do not describe packed data"):
            mt.gru(tensors[0], mt.tensor(sizes, device="cpu"), tensors[1], tensors[2:], False, 1, 0.0, False, False)


def test_dropout_between_layers(device):
    x, h, *params = (mt.full(s, 0.5, device=device) for s in [(1, 2, 3), (2, 2, 40), (40, 3), (40, 40), (40, 40), (40, 40)])

    def run(p, train=True):
        mt.manual_seed(3)
        return values(mt.rnn_relu(x, h, params, False, 2, p, train, False, False)[0])

    plain, dropped = run(0.0), run(0.5)
    assert (run(0.5) == dropped).all() and (run(0.5, train=False) == plain).all()
    # The units of the first layer are equal. The second layer sums the units that were kept, which are scaled by two.
    first = 0.5 * 0.5 * 3 + 0.5 * 0.5 * 40
    kept = (dropped - 0.5 * 0.5 * 40) / (0.5 * first * 2)
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-3)
    assert (kept > 5).all() and (kept < 35).all()
    assert (run(1.0) == 0.5 * 0.5 * 40).all()


def test_requires_grad_and_device():
    x, h, w, u = (mt.empty(s, device="meta", requires_grad=s == (6, 4)) for s in [(5, 3, 4), (1, 3, 2), (6, 4), (6, 2)])
    out, last = mt.gru(x, h, [w, u], False, 1, 0.0, False, False, False)
    assert out.requires_grad and last.requires_grad and out.is_meta


@pytest.mark.torch
@pytest.mark.parametrize("name, projection", [("lstm", 0), ("lstm", 2), ("gru", 0), ("rnn_tanh", 0)])
def test_flops(name, projection):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    hx = states(name, 4, 3, 6, projection)
    shapes = [(5, 3, 4), *hx, *parameter_shapes(GATES[name], 4, 6, 2, 2, True, projection)]
    call = caller(name, len(hx), True, 2, 0.0, False, True, False)
    with FlopCounterMode(display=False) as counter:
        call(torch, *(torch.empty(s, device="meta") for s in shapes))
    assert estimate(lambda *t: call(mt, *t), *(mt.empty(s, device="meta") for s in shapes)).flops == counter.get_total_flops()
    cell = f"{name}_cell"
    if not projection and cell in CELLS:
        made = [(3, 4), *[(3, 6)] * len(hx), *parameter_shapes(GATES[name], 4, 6, 1, 1, False, 0)]
        state = lambda t: list(t[1:3]) if len(hx) == 2 else t[1]
        with FlopCounterMode(display=False) as counter:
            t = [torch.empty(s, device="meta") for s in made]
            getattr(torch, cell)(t[0], state(t), *t[-2:])
        ours = estimate(lambda *t: getattr(mt, cell)(t[0], state(t), *t[-2:]), *(mt.empty(s, device="meta") for s in made))
        assert ours.flops == counter.get_total_flops()


def test_counts_of_layers_that_overflow_are_refused():
    layers = 0x3333333333333334
    states = [mt.empty(layers, 0, size, device="meta") for size in (2, 1)]
    weights = [mt.empty(*shape, device="meta") for shape in ((4, 6), (4, 2), (4,), (4,))]
    with pytest.raises(RuntimeError, match="63 bits"):
        mt.lstm(mt.empty(4, 0, 6, device="meta"), states, weights, True, layers, 0.0, False, False, False)


def test_gru_cell_keeps_the_order_of_the_state():
    state = mt.ones(4, 2).T
    assert mt.gru_cell(mt.ones(2, 3), state, mt.ones(12, 3), mt.ones(12, 4)).stride() == (1, 2)
