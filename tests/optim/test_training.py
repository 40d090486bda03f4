"""Training with every optimizer and what goes with it, beside PyTorch: the same parameters after the same steps."""

import copy
import inspect
import itertools
import warnings

import pytest

import metatensor as mt
from metatensor.analysis import MemoryTracker
from metatensor.deferred.fake import is_fake
from metatensor.torch_api.torch.amp import GradScaler

OPTIONS = {
    "Adadelta": [{}, {"rho": 0.8, "weight_decay": 0.1}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1}, {"beta2_decay": -0.5, "d": 2.0}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}],
    "Adam": [{}, {"amsgrad": True}, {"weight_decay": 0.1, "betas": (0.8, 0.9)}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "AdamW": [{}, {"amsgrad": True}, {"lr": 0.05, "weight_decay": 0.1}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "ASGD": [{}, {"t0": 2.0, "weight_decay": 0.1}],
    "LBFGS": [{"lr": 0.5}, {"line_search_fn": "strong_wolfe"}],
    "Muon": [{}, {"nesterov": False, "weight_decay": 0.2}, {"adjust_lr_fn": "match_rms_adamw"}],
    "NAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RMSprop": [{}, {"centered": True}, {"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.5, "centered": True}],
    "Rprop": [{}, {"etas": (0.4, 1.3)}],
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
            {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}],
}  # fmt: skip
WAYS = [{}, {"foreach": True}, {"foreach": False}, {"fused": True}, {"maximize": True}, {"maximize": True, "foreach": True},
        {"capturable": True}, {"differentiable": True}]  # fmt: skip


def takes(name, options):
    names = inspect.signature(getattr(mt.optim, name).__init__).parameters
    return all(option in names for option in options)


def parameters(t, dtype):
    values = [[[0.5, -1.25, 2.0], [1.5, 0.75, -0.3]], [[0.1, -0.2]]]
    return [t.nn.Parameter(t.tensor(v, dtype=getattr(t, dtype), device="cpu")) for v in values]


def run(t, name, options, dtype="float32", steps=5):
    """Return parameters and states after some steps, or the name of the exception's class."""
    ps = parameters(t, dtype)
    try:
        optimizer = getattr(t.optim, name)(ps, **options)

        def closure():
            optimizer.zero_grad()
            loss = sum((p * p * (i + 1)).sum() + p.sin().sum() * 0.3 for i, p in enumerate(ps))
            loss = loss.real if loss.is_complex() else loss
            loss.backward()
            return loss.detach()

        for _ in range(steps):
            if name == "LBFGS":
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
    except Exception as error:
        return type(error).__name__
    states = [] if name == "LBFGS" else [optimizer.state[p] for p in ps]
    return [[p.detach() for p in ps], states]


def plain(t, value):
    if isinstance(value, (list, tuple)):
        return [plain(t, part) for part in value]
    if isinstance(value, dict):
        return {key: plain(t, part) for key, part in sorted(value.items())}
    if isinstance(value, t.Tensor):
        value = t.view_as_real(value) if value.is_complex() else value
        return plain(t, value.to(t.float64).tolist())
    return value


def close(a, b, rel, absolute=1e-6):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key], rel, absolute) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y, rel, absolute) for x, y in zip(a, b, strict=True))
    return a == b if isinstance(a, str) or a is None else a == pytest.approx(b, rel=rel, abs=absolute, nan_ok=True)


CASES = [(name, {**options, **way}) for name, some in OPTIONS.items() for options, way in itertools.product(some, WAYS) if takes(name, way)]


@pytest.mark.torch
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_steps(name, options):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = plain(mt, run(mt, name, options)), plain(torch, run(torch, name, options))
    assert close(ours, theirs, 3e-5), (ours, theirs)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "complex64", "bfloat16"])
@pytest.mark.parametrize("name", OPTIONS)
def test_dtypes(name, dtype):
    torch = pytest.importorskip("torch")
    for options in OPTIONS[name]:
        if name == "Muon" and dtype == "bfloat16" and not options.get("nesterov", True):
            continue  # PyTorch then divides the momentum buffer itself by its norm
        ours, theirs = plain(mt, run(mt, name, options, dtype)), plain(torch, run(torch, name, options, dtype))
        rel, absolute = {"float64": (1e-10, 1e-12), "complex64": (3e-5, 1e-6), "bfloat16": (0.03, 0.03)}[dtype]
        assert close(ours, theirs, rel, absolute), (ours, theirs)


@pytest.mark.torch
def test_sparse_adam_refuses_dense_gradients():
    torch = pytest.importorskip("torch")
    assert run(mt, "SparseAdam", {}) == run(torch, "SparseAdam", {}) == "RuntimeError"


@pytest.mark.parametrize("name", [name for name in OPTIONS if takes(name, {"foreach": True})])
def test_foreach_changes_no_number(name):
    for options in OPTIONS[name]:
        one, together = (plain(mt, run(mt, name, {**options, "foreach": foreach})) for foreach in (False, True))
        assert close(one, together, 1e-6, 1e-7)


# Temporary memory, as bytes of tensors of 1000, 100 and 7 floats: what PyTorch's meta has at the peak of the first step.
PEAKS = {"Adam": (17268, 13296, 8868), "AdamW": (17268, 13296, 8868), "Adadelta": (17268, 17724, 8868), "Adamax": (12868, 13296, 8868),
         "RMSprop": (8840, 8868, 4440), "SGD": (0, 0, 0)}  # fmt: skip


@pytest.mark.parametrize("name", PEAKS)
def test_temporary_tensors(name):
    def peak(foreach):
        ps = [mt.nn.Parameter(mt.empty(*shape, device="meta")) for shape in ((10, 10), (100, 10), (7,))]
        for p in ps:
            p.grad = mt.empty_like(p)
        optimizer = getattr(mt.optim, name)(ps, lr=0.1, foreach=foreach)
        with MemoryTracker() as memory:
            optimizer.step()
        return memory.peak, memory.current

    one, together, state = PEAKS[name]
    assert peak(False) == (one, state)
    assert peak(True) == (together, state)


# What goes with an optimizer --------------------------------------------------------------------------------------------


def network(t):
    model = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.Tanh(), t.nn.Linear(8, 3)).to("cpu")
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(t.arange(p.numel(), device="cpu").reshape(p.shape).float().mul(0.37 + i).sin() * 0.5)
    x = t.arange(20, device="cpu").reshape(5, 4).float().mul(0.7).cos()
    return model, x, t.tensor([0, 1, 2, 1, 0], device="cpu")


def weights(model):
    return [p.detach() for p in model.parameters()]


def scaled(t):
    """Six steps with a GradScaler, one with an infinite loss."""
    model, x, y = network(t)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    scaler = (GradScaler if t is mt else t.amp.GradScaler)("cpu", init_scale=2.0**10, growth_interval=2)
    found = []
    for i in range(6):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss * float("inf") if i == 3 else loss).backward()
        scaler.unscale_(optimizer)
        norm = t.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        found += [scaler.get_scale(), loss.detach(), norm]
    return found, weights(model), scaler.state_dict()


def autocast(t):
    model, x, y = network(t)
    optimizer = t.optim.AdamW(model.parameters(), lr=0.05)
    found = []
    for _ in range(5):
        optimizer.zero_grad()
        with t.amp.autocast("cpu", dtype=t.bfloat16):
            logits = model(x)
            loss = t.nn.functional.cross_entropy(logits.float(), y)
        loss.backward()
        optimizer.step()
        found += [loss.detach(), str(logits.dtype).split(".")[-1], str(model[0].weight.grad.dtype).split(".")[-1]]
    return found


def averaged(t):
    model, x, y = network(t)
    swa_utils = t.optim.swa_utils
    ema = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    mean = swa_utils.AveragedModel(model)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    schedule = swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=3)
    for _ in range(6):
        optimizer.zero_grad()
        t.nn.functional.cross_entropy(model(x), y).backward()
        t.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        ema.update_parameters(model)
        mean.update_parameters(model)
        schedule.step()
    return weights(model), weights(ema.module), weights(mean.module), ema.n_averaged, optimizer.param_groups[0]["lr"]


def clipped(t):
    model, x, y = network(t)
    t.nn.functional.cross_entropy(model(x), y).backward()
    found = []
    for kind in (1, 2, float("inf"), 3.0):
        found += [t.nn.utils.clip_grad_norm_(model.parameters(), 0.3, norm_type=kind), model[0].weight.grad.clone()]
    found.append(t.nn.utils.get_total_norm([p.grad for p in model.parameters()]))
    model[0].weight.grad.fill_(float("nan"))
    try:
        t.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    except RuntimeError:
        found.append("RuntimeError")
    return found


@pytest.mark.torch
@pytest.mark.parametrize("loop", [scaled, autocast, averaged, clipped])
def test_loops(loop):
    torch = pytest.importorskip("torch")
    rel, absolute = (0.02, 0.01) if loop is autocast else (1e-5, 1e-6)
    ours, theirs = plain(mt, loop(mt)), plain(torch, loop(torch))
    assert close(ours, theirs, rel, absolute), (ours, theirs)


SCHEDULES = {
    "StepLR": (2, 0.5), "MultiStepLR": ([2, 4],), "ExponentialLR": (0.8,), "CosineAnnealingLR": (5,), "CosineAnnealingWarmRestarts": (3,),
    "LinearLR": (), "PolynomialLR": (6, 2.0), "ConstantLR": (), "LambdaLR": (lambda epoch: 0.9**epoch,),
    "MultiplicativeLR": (lambda epoch: 0.95,), "OneCycleLR": (0.5, 12), "CyclicLR": (0.01, 0.1, 3), "ReduceLROnPlateau": ("min", 0.5, 1),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    def train(t):
        model, x, y = network(t)
        optimizer = t.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
        schedule = getattr(t.optim.lr_scheduler, name)(optimizer, *SCHEDULES[name])
        found = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = t.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step(*([round(loss.item(), 1)] if name == "ReduceLROnPlateau" else []))
            group = optimizer.param_groups[0]
            found += [loss.detach(), group["lr"], group["momentum"]]
        return plain(t, [found, weights(model)])

    torch = pytest.importorskip("torch")
    assert close(train(mt), train(torch), 1e-4, 1e-5)


# Deferred and fake models -----------------------------------------------------------------------------------------------


def test_a_deferred_model_trains_after_materializing():
    def make():
        mt.manual_seed(0)
        return mt.nn.Sequential(mt.nn.Linear(4, 8, device="cpu"), mt.nn.Tanh(), mt.nn.Linear(8, 1, device="cpu"))

    def train(model):
        x = mt.arange(20, device="cpu").reshape(5, 4).float().cos()
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.05)
        losses = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    with mt.deferred_init():
        model = make()
    assert all(mt.is_deferred(p) for p in model.parameters())
    mt.materialize(model)
    losses = train(model)
    assert losses == train(make()) and losses[-1] < losses[0] / 2


def test_a_fake_model_takes_a_fake_step():
    with mt.FakeTensorMode():
        model = mt.nn.Sequential(mt.nn.Linear(4, 8, device="cpu"), mt.nn.ReLU(), mt.nn.Linear(8, 1, device="cpu"))
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.05)
        for foreach in (False, True):
            optimizer.param_groups[0]["foreach"] = foreach
            optimizer.zero_grad()
            model(mt.empty(5, 4, device="cpu")).square().mean().backward()
            mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    for p in model.parameters():
        assert is_fake(p) and is_fake(p.grad) and p.grad.shape == p.shape
        assert is_fake(optimizer.state[p]["exp_avg"]) and p.grad.device.type == "cpu"


def test_step_counters_that_others_write_to():
    p = mt.nn.Parameter(mt.ones(3, device="cpu"))
    p.grad = mt.ones(3, device="cpu")
    optimizer = mt.optim.Adam([p], lr=0.1)
    optimizer.step()
    optimizer.state[p]["step"].fill_(10)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 11
    other = mt.nn.Parameter(p.detach().clone())
    other.grad = mt.ones(3, device="cpu")
    again = mt.optim.Adam([other], lr=0.1)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in (optimizer, again):
        each.step()
    assert other.tolist() == p.tolist() and again.state[other]["step"].item() == 12
    with mt.inference_mode():
        q = mt.nn.Parameter(mt.ones(3, device="cpu"), requires_grad=False)
        q.grad = mt.ones(3, device="cpu")
        inside = mt.optim.Adam([q], lr=0.1)
        inside.step()
        inside.step()
    assert inside.state[q]["step"].item() == 2
