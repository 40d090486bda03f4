"""What a training step costs, compared with counts by hand."""

import linecache

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


class Layers(mt.nn.Module):
    """Four equal layers between two others."""

    def __init__(self):
        super().__init__()
        self.first = mt.nn.Linear(16, 64)
        self.layers = mt.nn.ModuleList([mt.nn.Sequential(mt.nn.Linear(64, 256), mt.nn.GELU(), mt.nn.Linear(256, 64)) for _ in range(4)])
        self.last = mt.nn.Linear(64, 8)

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def layers():
    with mt.device("meta"):
        return Layers(), mt.empty(32, 16)


def test_recomputation_of_the_layers():
    model, x = layers()
    plain = estimate_training(model, x)
    full = estimate_training(model, x, recompute="full")
    named = estimate_training(model, x, recompute="layers.*")
    assert full.recomputed == named.recomputed == [f"layers.{i}" for i in range(4)]
    assert full.recompute_flops == named.recompute_flops == 4 * 2 * 32 * 64 * 256  # the last product of a layer is not needed
    assert (full.forward_flops, full.backward_flops) == (plain.forward_flops, plain.backward_flops)
    states = 4 * mt.default_generator.get_state().nbytes  # of the random generator, to draw the same numbers again
    assert full.saved_bytes == plain.saved_bytes - 4 * (2 * 4 * 32 * 256) + states  # without what GELU gets and returns
    assert full.flops == plain.flops + full.recompute_flops == sum(full.flops_by_op.values())
    some = estimate_training(model, x, recompute="selective")
    assert some.recompute_flops == 0 and full.saved_bytes < some.saved_bytes < plain.saved_bytes
    assert "computed again in backward: 4 modules, layers.0 to layers.3" in str(full)
    assert all("forward" not in vars(module) for module in model.modules())
    with pytest.raises(ValueError, match="no module has such a path; there are first, layers"):
        estimate_training(model, x, recompute="blocks.*")
    with pytest.raises(ValueError, match="no list of layers"):
        estimate_training(mt.nn.Linear(16, 2, device="meta"), x, recompute="full")


def test_a_forward_of_an_instance_is_restored():
    model, x = layers()
    model.layers[0].forward = own = model.layers[0].forward
    estimate_training(model, x, recompute="layers.0")
    assert vars(model.layers[0])["forward"] is own


def test_precisions():
    model, x = layers()
    weights = estimate_training(model, x)
    count = weights.trainable_parameters
    tensors = len(list(model.parameters()))
    assert weights.parameter_bytes == 4 * count and weights.optimizer_bytes == 8 * count + 4 * tensors
    half = estimate_training(model, x, precision="bf16")
    assert half.parameter_bytes == half.gradient_bytes == 2 * count and half.optimizer_bytes == 4 * count + 4 * tensors
    assert half.input_bytes == weights.input_bytes // 2 and half.saved_bytes < 0.6 * weights.saved_bytes
    master = estimate_training(model, x, precision="bf16-master")
    assert master.gradient_bytes == 2 * count and master.optimizer_bytes == 12 * count + 4 * tensors
    mixed = estimate_training(model, x, precision="bf16-mixed")
    assert mixed.gradient_bytes == 4 * count and mixed.optimizer_bytes == weights.optimizer_bytes
    again = estimate_training(model, x, precision="bf16-mixed", recompute="full")
    assert again.saved_bytes < mixed.saved_bytes and again.gradient_bytes == 4 * count
    assert all(p.dtype == mt.float32 for p in model.parameters())
    with pytest.raises(ValueError, match="precision 'fp7' is unknown; choose from fp32, bf16"):
        estimate_training(model, x, precision="fp7")


def test_buffers_get_the_precision_and_return():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(4, 4), mt.nn.BatchNorm1d(4)), mt.empty(3, 4)
    kept = dict(model.named_buffers())
    assert estimate_training(model, x, precision="bf16").buffer_bytes == 2 * 8 + 8
    assert all(b is kept[name] for name, b in model.named_buffers())


def test_micro_batches():
    model, x = layers()
    one, four = estimate_training(model, x), estimate_training(model, x, grad_accumulation=4)
    assert (four.forward_flops, four.backward_flops) == (4 * one.forward_flops, 4 * one.backward_flops)
    assert four.forward_peak == one.forward_peak + one.gradient_bytes and four.saved_bytes == one.saved_bytes
    assert four.gradient_bytes == one.gradient_bytes and "4 micro-batches" in str(four)
    with pytest.raises(ValueError, match="grad_accumulation must be at least 1, got 0"):
        estimate_training(model, x, grad_accumulation=0)


def test_a_loss_is_a_function():
    model, x = layers()
    with pytest.raises(TypeError, match="loss must be callable, got str"):
        estimate_training(model, x, loss="sum")


def test_optimizers_by_name():
    model, x = layers()
    assert estimate_training(model, x, optimizer="sgd").optimizer_bytes == 0
    assert estimate_training(model, x, optimizer="SGD").optimizer == "SGD"
    together = estimate_training(model, x, foreach=True)
    assert together.step_peak > estimate_training(model, x).step_peak
    with pytest.raises(ValueError, match="no optimizer 'sdg'; there are adadelta"):
        estimate_training(model, x, optimizer="sdg")


def test_frozen_parameters_and_the_other_name():
    model, x = layers()
    model.first.requires_grad_(False)
    report = mt.analysis.estimate(model, x, training=True, optimizer="sgd")
    assert report.frozen_parameters == 16 * 64 + 64 and report.gradient_bytes == 4 * report.trainable_parameters
    assert report.optimizer_flops == 0 and report.peak.bytes >= report.forward_peak - 4


def test_an_optimizer_that_multiplies_matrices():
    model, x = layers()
    weights = [p for p in model.parameters() if p.ndim == 2]
    report = estimate_training(model, x, optimizer=lambda params: mt.optim.Muon([p for p in params if p.ndim == 2]))
    assert report.optimizer_flops > 5 * sum(2 * min(p.shape) ** 2 * max(p.shape) for p in weights)


@pytest.mark.parametrize("precision", [None, "bf16", "fp16-master"])
def test_gradients_of_before_are_kept(precision):
    with mt.device("meta"):
        model = mt.nn.Linear(4, 4)
        model.weight.grad = kept = mt.empty(4, 4)
        mt.analysis.estimate_training(model, mt.empty(2, 4), precision=precision)
    assert model.weight.grad is kept and model.bias.grad is None and model.weight.dtype == mt.float32


def test_functions_train_the_modules_that_they_refer_to():
    with mt.device("meta"):
        inner, x = mt.nn.Linear(8, 4), mt.empty(2, 8)

    def loss(x, scale):
        return (inner(x) * scale).sum()

    report = mt.analysis.estimate_training(loss, x, 3.0)
    same = mt.analysis.estimate_training(inner, x, loss=lambda out: (out * 3.0).sum())
    assert report.model == "loss" and [row.path for row in report.modules] == ["", "inner"]
    assert (report.trainable_parameters, report.optimizer_bytes, report.flops) == (36, same.optimizer_bytes, same.flops)
    assert inner.weight.grad is None
    with pytest.raises(ValueError, match="no parameter requires grad"):
        mt.analysis.estimate_training(lambda x: x * 2, x)
    with pytest.raises(ValueError, match="must be a module or a function"):
        mt.analysis.estimate_training(3, x)


class TwoLines(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mt.nn.ModuleList(mt.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)  # a line of this model
        return x.exp()  # another one


def test_the_peak_has_a_place_in_the_model():
    with mt.device("meta"):
        model, x = TwoLines(), mt.empty(1000, 64)
    report = mt.analysis.estimate_training(model, x)
    # The gradient of exp takes the most: its result, the gradient of the mean, and their product.
    assert (report.peak.op, report.peak.module) == ("mul", "")
    file, _, number = report.peak.location.rpartition(":")
    assert linecache.getline(file, int(number)).strip() == "return x.exp()  # another one"
    assert report.peak.bytes == max(report.forward_peak, report.backward_peak)
    first = report.heaviest[0]
    assert (first["operator"], first["module"], first["count"]) == ("nn.functional.linear", "layers.*", 2)
    assert first["bytes"] == 2 * 4 * 1000 * 64 and report.to_dict()["heaviest_at_peak"] == report.heaviest
    assert sum(row["bytes"] for row in report.heaviest) == report.peak.bytes


def test_the_peak_in_the_default_loss_has_its_name():
    with mt.device("meta"):
        model, x = mt.nn.Linear(4, 4, bias=False), mt.empty(1000, 4, dtype=mt.bfloat16)
    report = mt.analysis.estimate_training(model, x, precision="bf16")
    assert report.peak.location == "the default loss" and " of the default loss" in str(report)
