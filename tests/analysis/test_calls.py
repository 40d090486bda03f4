"""Recorded calls: what they compute and move, their phases and modules."""

import pytest

import metatensor as mt
from metatensor.analysis.calls import Call, CallRecorder


def recorded(run):
    with mt.device("meta"), CallRecorder() as recorder:
        run()
    return recorder.calls


def moved(run):
    """Return (op, read, written) of the last call."""
    call = recorded(run)[-1]
    return call.op, call.read, call.written


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: mt.empty(4, 8) + 1, ("add", 128, 128)),
        (lambda: mt.empty(4, 8).add_(mt.empty(8)), ("add_", 160, 128)),
        (lambda: mt.empty(4, 8).t(), ("t", 0, 0)),
        (lambda: mt.empty(4, 8).view(32), ("view", 0, 0)),
        (lambda: mt.empty(4, 8), ("empty", 0, 0)),
        (lambda: mt.zeros(4, 8), ("zeros", 0, 128)),
        (lambda: mt.zeros_like(mt.empty(4, 8)), ("zeros_like", 0, 128)),
        (lambda: mt.empty(4, 8).copy_(mt.empty(8)), ("copy_", 32, 128)),
        (lambda: mt.empty(4, 8).fill_(1.0), ("fill_", 0, 128)),
        (lambda: mt.empty(1, 8).expand(4, 8) * 2, ("mul", 32, 128)),
        (lambda: mt.add(mt.empty(4), 1, out=mt.empty(4)), ("add", 16, 16)),
        (lambda: mt.nn.functional.embedding(mt.empty(3, dtype=mt.int64), mt.empty(1000, 8)),
        ("nn.functional.embedding", 3 * 8 * 4 + 24, 96)),
        (lambda: mt.empty(1000, 8).index_select(0, mt.empty(3, dtype=mt.int64)), ("index_select", 3 * 8 * 4 + 24, 96)),
        (lambda: mt.nn.functional.embedding_bag(mt.empty(3, 2, dtype=mt.int64), mt.empty(1000, 8)),
         ("nn.functional.embedding_bag", 6 * 8 * 4 + 48, 96)),
        (lambda: mt.cat([mt.empty(2, 8), mt.empty(3, 8)]), ("cat", 160, 160)),
        (lambda: mt.empty(2**42, dtype=mt.float64).as_strided((2**41, 2**20), (1, 1)).sum(), ("sum", 2**64, 8)),
        (lambda: mt.empty(0, 8).t() + 1, ("add", 0, 0)),
        (lambda: mt.empty(4, 8, dtype=mt.bfloat16) @ mt.empty(8, 2, dtype=mt.bfloat16), ("matmul", 96, 16)),
    ],
)  # fmt: skip
def test_bytes_by_hand(run, expected):
    assert moved(run) == expected


@pytest.mark.parametrize(
    ("run", "form"),
    [
        (lambda: mt.empty(4, 8) + 1, ""),
        (lambda: mt.empty(4, 8).t() + 1, "strided"),
        (lambda: mt.empty(4, 8)[:, 1:] + 1, "rows"),
        (lambda: mt.empty(4, 8).sum(0), "leading"),
        (lambda: mt.empty(4, 8).sum(-1), ""),
        (lambda: mt.empty(4, 8).sum(), ""),
        (lambda: mt.nn.functional.conv2d(mt.empty(1, 4, 8, 8), mt.empty(2, 4, 1, 1)), "pointwise"),
        (lambda: mt.nn.functional.conv2d(mt.empty(1, 4, 8, 8), mt.empty(4, 1, 3, 3), None, 1, 0, 1, 4), "grouped"),
        (lambda: mt.nn.functional.conv2d(mt.empty(1, 4, 8, 8), mt.empty(2, 4, 3, 3)), ""),
        (lambda: mt.nn.functional.gelu(mt.empty(4), approximate="tanh"), "tanh"),
        (lambda: mt.nn.functional.dropout(mt.empty(4), 0.0), "off"),
        (lambda: mt.nn.functional.max_pool2d(mt.empty(1, 1, 8, 8), 3, 2), "overlapping"),
    ],
)
def test_forms(run, form):
    assert recorded(run)[-1].form == form


def test_patches_and_weights_that_are_read_again():
    x, w = mt.empty(2, 4, 8, 8, device="meta"), mt.empty(6, 4, 3, 3, device="meta", requires_grad=True)
    call = recorded(lambda: mt.nn.functional.conv2d(x, w))[-1]
    assert call.repeated == 2 * 6 * 6 * 4 * 9 * 4  # positions, channels, kernel, bytes
    back = recorded(lambda: mt.nn.functional.conv2d(x, w).sum().backward())[-1]
    assert back.op == "convolution_backward" and back.repeated == call.repeated and back.flops == call.flops
    with mt.device("meta"):
        layer = mt.nn.LSTM(8, 16, batch_first=True)
    call = next(call for call in recorded(lambda: layer(mt.empty(2, 5, 8))) if call.op == "lstm")
    assert call.repeated == 5 * 4 * (64 * 8 + 64 * 16)


def test_phases_modules_and_dtypes():
    with mt.device("meta"):
        model = mt.nn.Sequential(mt.nn.Linear(8, 4), mt.nn.ReLU())
        with CallRecorder(model) as recorder:
            loss = model(mt.empty(2, 8)).sum()
            recorder.phase = "backward"
            loss.backward()
    forward = [(call.op, call.module) for call in recorder.calls if call.phase == "forward" and call.launches]
    assert forward == [("nn.functional.linear", "0"), ("nn.functional.relu", "1"), ("sum", "")]
    assert sum(call.flops for call in recorder.calls if call.phase == "backward") == 2 * 2 * 8 * 4  # the input needs no gradient
    assert {call.dtype for call in recorder.calls if call.launches} == {"float32"}


def test_recording_changes_nothing():
    tracker = mt.analysis.MemoryTracker()
    with mt.device("meta"), tracker, CallRecorder():
        y = mt.empty(8) + 1
        assert tracker.current == y.untyped_storage().nbytes()
        del y
        assert tracker.current == 0
    with CallRecorder() as recorder, pytest.raises(RuntimeError):
        mt.empty(2, 3, device="meta") @ mt.empty(2, 3, device="meta")
    assert [call.op for call in recorder.calls] == ["empty", "empty"]


def test_backward_calls_belong_to_the_module_whose_gradient_they_compute():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.Sequential(mt.nn.Tanh(), mt.nn.Linear(4, 2))), mt.empty(3, 4)
    with CallRecorder(model) as recorder:
        out = model(x).exp()
        recorder.phase = "backward"
        out.backward(mt.ones_like(out))
    found = [call.module for call in recorder.calls if call.phase == "backward" and call.flops]
    assert found == ["1.1", "1.1", "0"]
    assert [call.module for call in recorder.calls if call.op == "tanh_backward"] == ["1.0"]
    assert recorder.calls[-1].module == "0" and {call.module for call in recorder.calls if call.op == "ones_like"} == {""}


def test_functions_in_place_read_and_write_their_argument():
    x = mt.empty(8, 16, device="meta")
    with CallRecorder() as recorder:
        mt.nn.functional.relu(x, inplace=True)
        mt.nn.functional.silu(x, True)
        mt.nn.functional.relu(x)
        mt.nn.functional.dropout(x, 0.5, False, True)
    assert [(call.read, call.written) for call in recorder.calls] == [(512, 512), (512, 512), (512, 512), (0, 0)]


def test_equal_calls_share_their_object():
    def run():
        x = mt.empty(4, 8)
        for _ in range(3):
            x = x + 1

    first, second, third = recorded(run)[1:]
    assert first is second is third and isinstance(first, Call)
