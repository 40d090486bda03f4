"""What a training step costs, compared with counts by hand."""

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker, estimate_training


def linear():
    with mt.device("meta"):
        return mt.nn.Sequential(mt.nn.Linear(100, 50), mt.nn.ReLU(), mt.nn.Linear(50, 10)), mt.empty(8, 100)


def test_counts_by_hand():
    model, x = linear()
    report = estimate_training(model, x)
    weights = 4 * (100 * 50 + 50 + 50 * 10 + 10)
    assert report.parameter_bytes == report.gradient_bytes == weights
    assert report.optimizer_bytes == 2 * weights + 4 * 4  # and a step counter for each parameter
    assert report.input_bytes == 4 * 8 * 100
    # The result of the ReLU is saved; the loss is one number.
    assert report.saved_bytes == 4 * 8 * 50 + 4
    assert report.forward_peak == 4 * 8 * (50 + 50)  # the first product, and its ReLU
    assert report.forward_flops == 2 * 8 * (100 * 50 + 50 * 10)
    assert report.backward_flops == 2 * 8 * (100 * 50 + 2 * 50 * 10)  # the input needs no gradient
    assert report.flops == report.forward_flops + report.backward_flops
    assert report.step_peak == 2 * 4 * 100 * 50  # two temporary tensors of the largest parameter, and none before it
    assert report.without_gradient == []
    assert report.total_bytes == report.fixed_bytes + report.gradient_bytes + report.step_peak
    assert "optimizer state" in str(report) and report.to_dict()["total_bytes"] == report.total_bytes


def test_the_figures_are_those_of_the_loop():
    model, x = linear()
    report = estimate_training(model, x, loss=lambda out: out.square().sum(), optimizer=lambda ps: mt.optim.SGD(ps, momentum=0.9))
    optimizer = mt.optim.SGD(model.parameters(), momentum=0.9)
    with MemoryTracker() as memory:
        loss = model(x).square().sum()
        assert (memory.peak, memory.current) == (report.forward_peak, report.saved_bytes)
        memory.reset_peak()
        loss.backward()
        del loss
        assert (memory.peak, memory.current) == (report.backward_peak, report.gradient_bytes)
        optimizer.step()
        assert memory.current == report.gradient_bytes + report.optimizer_bytes == 2 * report.gradient_bytes


def test_checkpointing_lowers_the_peak():
    from metatensor.utils.checkpoint import checkpoint

    class Deep(mt.nn.Module):
        def __init__(self, again):
            super().__init__()
            self.layers = mt.nn.ModuleList([mt.nn.Sequential(mt.nn.Linear(64, 256), mt.nn.GELU(), mt.nn.Linear(256, 64)) for _ in range(6)])
            self.again = again

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)
            return x

    with mt.device("meta"):
        plain, again, x = Deep(False), Deep(True), mt.empty(512, 64)
    first, second = estimate_training(plain, x), estimate_training(again, x)
    assert second.saved_bytes < first.saved_bytes / 4
    assert second.backward_peak < first.backward_peak / 2
    assert second.gradient_bytes == first.gradient_bytes
    # The whole forward runs once more, but for the last product of each layer: nothing that backward needs depends on it.
    assert second.backward_flops - first.backward_flops == first.forward_flops // 2


def test_the_model_is_left_as_it_was():
    model, x = linear()
    model[0].weight.grad = kept = mt.empty(50, 100, device="meta")
    model[2].bias.requires_grad_(False)
    versions = [p._version for p in model.parameters()]
    report = estimate_training(model, x)
    assert report.gradient_bytes == report.parameter_bytes - 40
    assert model[0].weight.grad is kept and all(p.grad is None for p in list(model.parameters())[1:])
    assert [p._version for p in model.parameters()][3] == versions[3]


def test_parameters_without_a_gradient_are_named():
    class Unused(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = mt.nn.Linear(3, 3), mt.nn.Linear(3, 3)

        def forward(self, x):
            return {"a": [self.used(x)], "n": 3}

    with mt.device("meta"):
        report = estimate_training(Unused(), mt.empty(2, 3))
    assert report.without_gradient == ["spare.weight", "spare.bias"]


def test_lazy_modules():
    with mt.device("meta"):
        report = estimate_training(mt.nn.LazyLinear(5), mt.empty(2, 3))
    assert report.parameter_bytes == report.gradient_bytes == 4 * 20


def test_misuse():
    model, x = linear()
    with pytest.raises(ValueError, match=r"0\.weight is on cpu"):
        estimate_training(mt.nn.Sequential(mt.nn.Linear(2, 2, device="cpu")), x)
    with pytest.raises(RuntimeError, match="pass loss"):
        estimate_training(Detached(model), x)
    with pytest.raises(ValueError, match="no parameter requires grad"):
        estimate_training(model.requires_grad_(False), x)


class Detached(mt.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).detach()
