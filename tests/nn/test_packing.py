"""Padded and packed sequences, and recurrent layers with them, compared with PyTorch's."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor import nn
from metatensor.nn.utils import rnn
from nn.test_layers import ours_of, tensors

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def close(ours, theirs):
    import torch

    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype)[11:] == str(theirs.dtype)[6:]
    torch.testing.assert_close(torch.tensor(ours.tolist(), dtype=theirs.dtype).reshape(theirs.shape), theirs.detach(), atol=1e-5, rtol=1e-4)


def same_packed(ours, theirs):
    for o, t in zip(ours, theirs):
        assert (o is None) == (t is None)
        if o is not None:
            close(o, t)


@pytest.fixture
def torch():
    pytest.importorskip("metatensor_cpu")
    return pytest.importorskip("torch")


@pytest.mark.torch
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([(), (3,), (2, 1)]), st.integers(0, 2))
@settings(max_examples=60)
def test_packing_and_padding_again(lengths, batch_first, as_tensor, rest, extra):
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    time = max(lengths) + extra
    padded = torch.randn((len(lengths), time, *rest) if batch_first else (time, len(lengths), *rest))
    given = torch.tensor(lengths) if as_tensor else lengths
    theirs = torch.nn.utils.rnn.pack_padded_sequence(padded, given, batch_first, enforce_sorted=False)
    ours = rnn.pack_padded_sequence(ours_of(padded), ours_of(given) if as_tensor else lengths, batch_first, enforce_sorted=False)
    assert ours.batch_sizes.tolist() == theirs.batch_sizes.tolist()
    # Equal lengths may be in any order.
    if sorted(set(lengths)) == sorted(lengths):
        same_packed(ours, theirs)
    total = None if extra == 1 else time
    got, want = (
        lib.pad_packed_sequence(packed, batch_first, 0.5, total)
        for lib, packed in ((rnn, ours), (torch.nn.utils.rnn, theirs))
    )
    same_packed(got, want)
    assert got[0].stride() == tuple(want[0].stride())
    meta = rnn.pack_padded_sequence(ours_of(padded).to("meta"), lengths, batch_first, enforce_sorted=False)
    assert meta.data.is_meta and meta.data.shape == ours.data.shape and meta.batch_sizes.tolist() == ours.batch_sizes.tolist()
    again = rnn.pad_packed_sequence(meta, batch_first, total_length=total)
    assert again[0].shape == got[0].shape and again[1].shape == got[1].shape


@pytest.mark.torch
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.booleans(), st.sampled_from(["left", "right"]), st.sampled_from([(), (3,)]))
@settings(max_examples=40)
def test_pad_sequence(lengths, batch_first, side, rest):
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    sequences = [torch.randn(n, *rest) for n in lengths]
    want = torch.nn.utils.rnn.pad_sequence(sequences, batch_first, 2.5, side)
    got = rnn.pad_sequence([ours_of(s) if s.numel() else mt.empty(tuple(s.shape), device="cpu") for s in sequences], batch_first, 2.5, side)
    close(got, want)
    assert got.stride() == want.stride()
    if side == "right":
        for one, other in zip(rnn.unpad_sequence(got, mt.tensor(lengths), batch_first), sequences):
            assert one.tolist() == other.tolist()


@pytest.mark.torch
def test_pack_sequence(torch):
    sequences = [torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6])]
    theirs = torch.nn.utils.rnn.pack_sequence(sequences)
    ours = rnn.pack_sequence([ours_of(s) for s in sequences])
    same_packed(ours, theirs)
    assert [s.tolist() for s in rnn.unpack_sequence(ours)] == [s.tolist() for s in sequences]
    mixed = [sequences[i] for i in (1, 0, 2)]
    ours = rnn.pack_sequence([ours_of(s) for s in mixed], enforce_sorted=False)
    same_packed(ours, torch.nn.utils.rnn.pack_sequence(mixed, enforce_sorted=False))
    assert [s.tolist() for s in rnn.unpack_sequence(ours)] == [s.tolist() for s in mixed]


@pytest.mark.torch
@pytest.mark.parametrize(
    "call", ["RNN(3, 4, 2)", "LSTM(3, 4, bidirectional=True)", "LSTM(3, 4, 2, proj_size=2)", "GRU(3, 4, 2, bidirectional=True)"]
)
@pytest.mark.parametrize("given", [False, True])
def test_layers_of_packed_sequences(torch, call, given):
    torch.manual_seed(0)
    theirs, ours = eval(f"torch.nn.{call}"), eval(f"nn.{call}")
    ours.load_state_dict({k: ours_of(v) for k, v in theirs.state_dict().items()})
    padded, lengths = torch.randn(5, 3, 3), [2, 5, 3]
    want = torch.nn.utils.rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False)
    got = rnn.pack_padded_sequence(ours_of(padded), lengths, enforce_sorted=False)
    layers = theirs.num_layers * (2 if theirs.bidirectional else 1)
    state = torch.randn(layers, 3, theirs.proj_size or 4)
    if call.startswith("LSTM"):
        state = (state, torch.randn(layers, 3, 4))
    want, last = theirs(want, state if given else None)
    packed = got
    got, ours_last = ours(packed, ours_of(state) if given else None)
    assert type(got) is rnn.PackedSequence
    same_packed(got, want)
    for o, t in zip(tensors(ours_last), tensors(last), strict=True):
        close(o, t)
    meta = ours.to("meta")(packed.to("meta"))
    assert meta[0].data.shape == got.data.shape and meta[0].data.is_meta


def test_the_object():
    pytest.importorskip("metatensor_cpu")
    packed = rnn.pack_sequence([mt.ones(3, 2), mt.ones(1, 2)])
    assert packed.to(mt.float32) is packed and not packed.is_cuda and not packed.is_pinned()
    assert [getattr(packed, how)().data.dtype for how in ("double", "float", "half", "long", "int", "short", "char", "byte")] == [
        mt.float64, mt.float32, mt.float16, mt.int64, mt.int32, mt.int16, mt.int8, mt.uint8]  # fmt: skip
    moved = rnn.pack_sequence([mt.ones(1, 2), mt.ones(3, 2)], enforce_sorted=False).to("meta", mt.float16)
    assert moved.data.is_meta and moved.data.dtype == mt.float16 and moved.batch_sizes.device.type == "cpu"
    assert moved.sorted_indices.is_meta and moved.sorted_indices.dtype == mt.int64
    for twin in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert twin.data.tolist() == packed.data.tolist() and twin.batch_sizes.tolist() == [2, 1, 1]
    assert rnn.PackedSequence((packed.data, packed.batch_sizes)).batch_sizes is packed.batch_sizes
    assert packed.cpu() is packed


@pytest.mark.parametrize(
    "error, words, call",
    [
        (RuntimeError, "cannot be packed", lambda: rnn.pack_padded_sequence(mt.ones(0, 2), [1, 1])),
        (RuntimeError, "got 1 lengths for a batch of 2", lambda: rnn.pack_padded_sequence(mt.ones(3, 2), [1])),
        (RuntimeError, "must decrease", lambda: rnn.pack_padded_sequence(mt.ones(3, 2), [1, 2])),
        (RuntimeError, "between 1 and 3", lambda: rnn.pack_padded_sequence(mt.ones(3, 2), [1, 0])),
        (RuntimeError, "between 1 and 3", lambda: rnn.pack_padded_sequence(mt.ones(3, 2), [4, 1])),
        (RuntimeError, "must be a vector", lambda: rnn.pack_padded_sequence(mt.ones(3, 2), mt.ones(1, 2))),
        (mt.DataDependentError, "depends on the values", lambda: rnn.pack_padded_sequence(mt.ones(3, 2), mt.ones(2, device="meta"))),
        (ValueError, "total_length=2", lambda: rnn.pad_packed_sequence(rnn.pack_sequence([mt.ones(3)]), total_length=2)),
        (RuntimeError, "at least one", lambda: rnn.pad_sequence([])),
        (RuntimeError, "expected an iterable", lambda: rnn.pad_sequence(3)),
        (RuntimeError, "'left' or 'right'", lambda: rnn.pad_sequence([mt.ones(3)], padding_side="up")),
        (ValueError, "must be on the cpu", lambda: rnn.PackedSequence(mt.ones(3), mt.ones(3, device="meta"))),
        (AssertionError, "must be a pair", lambda: rnn.PackedSequence(mt.ones(3))),
        (ValueError, "got 1 lengths", lambda: rnn.unpad_sequence(mt.ones(3, 2), [1])),
    ],
)  # fmt: skip
def test_refusals(error, words, call):
    pytest.importorskip("metatensor_cpu")
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ValueError, "dropout must be", lambda: nn.GRU(2, 3, dropout=1.5)),
        (ValueError, "dropout must be", lambda: nn.GRU(2, 3, dropout=True)),
        (TypeError, "bias must be of type bool", lambda: nn.LSTM(2, 3, bias=1)),
        (TypeError, "hidden_size must be of type int", lambda: nn.LSTM(2, 3.0)),
        (ValueError, "input_size must be positive", lambda: nn.LSTM(0, 3)),
        (ValueError, "num_layers must be positive", lambda: nn.LSTM(2, 3, 0)),
        (ValueError, "proj_size must be less", lambda: nn.LSTM(2, 3, proj_size=3)),
        (ValueError, "only an LSTM", lambda: nn.RNN(2, 3, proj_size=1)),
        (ValueError, "nonlinearity must be", lambda: nn.RNN(2, 3, nonlinearity="elu")),
        (ValueError, "mode must be", lambda: nn.RNNBase("ELMAN", 2, 3)),
        (RuntimeError, "nonlinearity must be", lambda: nn.RNNCell(2, 3, nonlinearity="elu")(mt.empty(2))),
        (ValueError, "2 or 3 dimensions", lambda: nn.LSTM(2, 3)(mt.empty(2))),
        (RuntimeError, "expected 2 features", lambda: nn.LSTM(2, 3)(mt.empty(5, 1, 3))),
        (ValueError, "has dtype metatensor.float64", lambda: nn.LSTM(2, 3)(mt.empty(5, 1, 2, dtype=mt.float64))),
        (RuntimeError, "states of 2 dimensions", lambda: nn.GRU(2, 3)(mt.empty(5, 2), mt.empty(1, 1, 3))),
        (RuntimeError, r"Expected hidden size \(1, 4, 3\), got \[1, 1, 3\]", lambda: nn.GRU(2, 3)(mt.empty(5, 4, 2), mt.empty(1, 1, 3))),
        (RuntimeError, r"hidden\[1\] of shape", lambda: nn.LSTM(2, 3)(mt.empty(5, 2), (mt.empty(1, 3), mt.empty(1, 4)))),
        (ValueError, "1 or 2 dimensions", lambda: nn.GRUCell(2, 3)(mt.empty(1, 1, 2))),
        (ValueError, "1 or 2 dimensions", lambda: nn.LSTMCell(2, 3)(mt.empty(1, 2), (mt.empty(1, 1, 3),) * 2)),
    ],
)
def test_refusals_of_layers(error, words, call):
    mt.set_default_device("meta")
    with pytest.raises(error, match=words):
        call()


def test_weights_are_looked_up_each_time():
    mt.set_default_device("meta")
    layer = nn.LSTM(2, 3)
    assert [len(names) for names in layer.all_weights] == [4] and layer.flatten_parameters() is None
    layer.weight_ih_l0 = nn.Parameter(mt.empty(12, 5))
    layer.input_size = 5
    assert layer(mt.empty(4, 1, 5))[0].shape == (4, 1, 3)
    with pytest.warns(UserWarning, match="between layers"):
        nn.LSTM(2, 3, dropout=0.5)
