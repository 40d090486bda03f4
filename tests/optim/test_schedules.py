"""Learning rate schedules compared with PyTorch's: rates, momenta and states."""

import warnings

import pytest

import metatensor as mt
from metatensor import optim
from metatensor.optim import lr_scheduler


class Halving:
    def __init__(self):
        self.seen = 0

    def __call__(self, epoch):
        return 0.5**epoch


SCHEDULES = {
    "lambda": lambda L, o: L.LambdaLR(o, lambda e: 0.9**e),
    "lambdas": lambda L, o: L.LambdaLR(o, [lambda e: 0.9**e, Halving()]),
    "multiplicative": lambda L, o: L.MultiplicativeLR(o, lambda e: 0.5 + e / 10),
    "step": lambda L, o: L.StepLR(o, 3),
    "step_gamma": lambda L, o: L.StepLR(o, 1, gamma=0.7),
    "multistep": lambda L, o: L.MultiStepLR(o, [2, 4, 4, 7], gamma=0.5),
    "constant": lambda L, o: L.ConstantLR(o),
    "constant_half": lambda L, o: L.ConstantLR(o, factor=0.5, total_iters=2),
    "linear": lambda L, o: L.LinearLR(o),
    "linear_down": lambda L, o: L.LinearLR(o, start_factor=0.9, end_factor=0.1, total_iters=7),
    "exponential": lambda L, o: L.ExponentialLR(o, 0.9),
    "polynomial": lambda L, o: L.PolynomialLR(o),
    "polynomial_2": lambda L, o: L.PolynomialLR(o, total_iters=9, power=2.0),
    "cosine": lambda L, o: L.CosineAnnealingLR(o, 5),
    "cosine_min": lambda L, o: L.CosineAnnealingLR(o, 3, eta_min=0.01),
    "restarts": lambda L, o: L.CosineAnnealingWarmRestarts(o, 3),
    "restarts_longer": lambda L, o: L.CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.001),
    "cyclic": lambda L, o: L.CyclicLR(o, 0.01, 0.1, step_size_up=3),
    "cyclic_triangular2": lambda L, o: L.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 2, 3, mode="triangular2"),
    "cyclic_exp": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "cyclic_own": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    "onecycle": lambda L, o: L.OneCycleLR(o, 0.5, total_steps=20),
    "onecycle_three": lambda L, o: L.OneCycleLR(o, [0.5, 0.1], epochs=4, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"),
    "onecycle_plain": lambda L, o: L.OneCycleLR(o, 0.5, total_steps=20, cycle_momentum=False, pct_start=0.5, div_factor=10.0),
    "sequential": lambda L, o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.9)], [3]),
    "sequential_3": lambda L, o: L.SequentialLR(o, [L.LinearLR(o), L.CosineAnnealingLR(o, 4), L.StepLR(o, 2)], [3, 8]),
    "chained": lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 2), L.ExponentialLR(o, 0.9)]),
    "chained_sequential": lambda L, o: L.ChainedScheduler(
        [L.SequentialLR(o, [L.LinearLR(o), L.ExponentialLR(o, 0.9)], [4]), L.StepLR(o, 2)]
    ),
}  # fmt: skip


def optimizer_of(t, optim_, kind="SGD"):
    params = [t.nn.Parameter(t.zeros(2)), t.nn.Parameter(t.zeros(3))]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(optim_, kind)([{"params": params[:1], "lr": 0.3}, {"params": params[1:]}], lr=0.1, **options)


def plain(value):
    """Return a value in which floats are compared with a tolerance."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    return value if not isinstance(value, float) else pytest.approx(value, rel=1e-9, abs=1e-15)


def history(t, optim_, make, kind="SGD", steps=18):
    optimizer = optimizer_of(t, optim_, kind)
    schedule = make(optim_.lr_scheduler, optimizer)
    seen = []
    for _ in range(steps):
        seen.append(
            [schedule.get_last_lr(), [{k: v for k, v in g.items() if k not in ("params",)} for g in optimizer.param_groups]]
        )
        optimizer.step()
        schedule.step()
    return seen, schedule.state_dict()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates(name, kind):
    torch = pytest.importorskip("torch")
    found, state = history(mt, optim, SCHEDULES[name], kind)
    expected, their_state = history(torch, torch.optim, SCHEDULES[name], kind)
    assert found == plain(expected)
    ignored = ("_scale_fn_ref",)
    assert state == plain({k: v for k, v in their_state.items() if k not in ignored})


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", [n for n in SCHEDULES if not n.startswith(("sequential", "chained"))])
def test_going_to_an_epoch_and_loading(name):
    torch = pytest.importorskip("torch")

    def run(t, optim_):
        optimizer = optimizer_of(t, optim_)
        schedule = SCHEDULES[name](optim_.lr_scheduler, optimizer)
        optimizer.step()
        rates = []
        for epoch in (1, 5, 3, 7):
            schedule.step(epoch)
            rates.append(schedule.get_last_lr())
        other = SCHEDULES[name](optim_.lr_scheduler, optimizer_of(t, optim_))
        other.load_state_dict(schedule.state_dict())
        other.optimizer.step()
        other.step()
        return [*rates, other.get_last_lr()]

    assert run(mt, optim) == plain(run(torch, torch.optim))


@pytest.mark.parametrize(
    "options",
    [
        {}, {"mode": "max"}, {"threshold_mode": "abs", "threshold": 0.5}, {"cooldown": 2}, {"min_lr": [0.2, 0.0]},
        {"patience": 1, "factor": 0.5},
    ],
)  # fmt: skip
def test_plateau(options):
    torch = pytest.importorskip("torch")
    metrics = [3, 2, 2.1, 2.2, 1.9, 1.9, 1.9, 1.9, 1.9, 3, 4, 5, 5, 5, 5, 5, 5, 4.9, 4.4, 1, 1, 1, 1, 1, 1, 1]

    def run(t, optim_):
        optimizer = optimizer_of(t, optim_)
        schedule = optim_.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 3, **options})
        rates = []
        for metric in metrics:
            schedule.step(t.tensor(metric))
            rates.append(schedule.get_last_lr())
        return rates, schedule.state_dict()

    found, expected = run(mt, optim), run(torch, torch.optim)
    assert found == plain(expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [n for n in SCHEDULES if not n.startswith("onecycle")])
def test_two_hundred_steps_with_rates_changed_by_hand(name):
    torch = pytest.importorskip("torch")

    def run(t, optim_):
        optimizer = optimizer_of(t, optim_)
        schedule = SCHEDULES[name](optim_.lr_scheduler, optimizer)
        rates = []
        for i in range(200):
            optimizer.step()
            schedule.step()
            if i % 37 == 5:
                for group in optimizer.param_groups:
                    group["lr"] = 0.25 + i / 1000
            rates.append([group["lr"] for group in optimizer.param_groups])
        return rates

    assert run(mt, optim) == plain(run(torch, torch.optim))


RESUMABLE = {
    "step": lambda L, o, e: L.StepLR(o, 3, last_epoch=e),
    "multistep": lambda L, o, e: L.MultiStepLR(o, [0, 3, 3, 5], last_epoch=e),
    "constant": lambda L, o, e: L.ConstantLR(o, 0.5, 3, last_epoch=e),
    "constant_none": lambda L, o, e: L.ConstantLR(o, 0.5, 0, last_epoch=e),
    "linear": lambda L, o, e: L.LinearLR(o, 0.25, 1.0, 4, last_epoch=e),
    "linear_none": lambda L, o, e: L.LinearLR(o, 0.25, 1.0, 0, last_epoch=e),
    "exponential": lambda L, o, e: L.ExponentialLR(o, 0.9, last_epoch=e),
    "polynomial": lambda L, o, e: L.PolynomialLR(o, 4, 2.0, last_epoch=e),
    "polynomial_none": lambda L, o, e: L.PolynomialLR(o, 0, last_epoch=e),
    "cosine": lambda L, o, e: L.CosineAnnealingLR(o, 4, 0.01, last_epoch=e),
    "lambda": lambda L, o, e: L.LambdaLR(o, lambda t: 0.5**t, last_epoch=e),
    "multiplicative": lambda L, o, e: L.MultiplicativeLR(o, lambda t: 0.5, last_epoch=e),
    "cyclic": lambda L, o, e: L.CyclicLR(o, 0.01, 0.1, 3, last_epoch=e),
    "onecycle": lambda L, o, e: L.OneCycleLR(o, 0.5, 20, last_epoch=e),
    "restarts": lambda L, o, e: L.CosineAnnealingWarmRestarts(o, 3, 2, last_epoch=e),
}


@pytest.mark.parametrize("epoch", [-1, 2, 3, 9])
@pytest.mark.parametrize("name", RESUMABLE)
def test_resuming_at_an_epoch(name, epoch):
    torch = pytest.importorskip("torch")

    def run(t, optim_):
        optimizer = optimizer_of(t, optim_)
        if epoch != -1:
            for group in optimizer.param_groups:
                group.update(initial_lr=0.3, max_lr=0.5, min_lr=0.01, max_momentum=0.9, base_momentum=0.8)
        schedule = RESUMABLE[name](optim_.lr_scheduler, optimizer, epoch)
        rates = [schedule.get_last_lr()]
        for _ in range(7):
            optimizer.step()
            schedule.step()
            rates.append(schedule.get_last_lr())
        return rates

    assert run(mt, optim) == plain(run(torch, torch.optim))


@pytest.mark.parametrize("anneal", [{}, {"anneal_strategy": "linear", "anneal_epochs": 4}, {"anneal_epochs": 0}])
def test_swalr(anneal):
    torch = pytest.importorskip("torch")
    import torch.optim.swa_utils as theirs

    from metatensor.optim import swa_utils as ours

    found, state = history(mt, optim, lambda L, o: ours.SWALR(o, [0.05, 0.02], **anneal))
    expected, their_state = history(torch, torch.optim, lambda L, o: theirs.SWALR(o, [0.05, 0.02], **anneal))
    assert found == plain(expected)
    assert set(state) <= set(their_state) | {"_anneal_strategy"}


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda L, o: L.StepLR(object(), 3), TypeError),
        (lambda L, o: L.StepLR(o, 3, last_epoch=2), KeyError),
        (lambda L, o: L.LambdaLR(o, [lambda e: 1]), ValueError),
        (lambda L, o: L.ConstantLR(o, factor=2), ValueError),
        (lambda L, o: L.LinearLR(o, start_factor=0), ValueError),
        (lambda L, o: L.CosineAnnealingWarmRestarts(o, 0), ValueError),
        (lambda L, o: L.OneCycleLR(o, 0.1), ValueError),
        (lambda L, o: L.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="quad"), ValueError),
        (lambda L, o: L.CyclicLR(o, 0.1, 0.2, mode="square"), ValueError),
        (lambda L, o: L.CyclicLR(o, [0.1], 0.2), ValueError),
        (lambda L, o: L.ReduceLROnPlateau(o, factor=1.0), ValueError),
        (lambda L, o: L.ReduceLROnPlateau(o, mode="least"), ValueError),
        (lambda L, o: L.SequentialLR(o, [L.StepLR(o, 2)], [1]), ValueError),
        (lambda L, o: L.ChainedScheduler([]), ValueError),
        (lambda L, o: L.LRScheduler(o), NotImplementedError),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make(lr_scheduler, optimizer_of(mt, optim))
    torch = pytest.importorskip("torch")
    with pytest.raises(error):
        make(torch.optim.lr_scheduler, optimizer_of(torch, torch.optim))


def test_tensor_rates_are_set_in_place():
    p = mt.nn.Parameter(mt.zeros(2))
    lr = mt.tensor(0.1)
    optimizer = optim.SGD([p], lr=lr)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is lr and lr.item() == pytest.approx(0.01)


def test_warns_of_the_wrong_order():
    optimizer = optimizer_of(mt, optim)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before the optimizer"):
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_the_older_base_name():
    class Mine(lr_scheduler._LRScheduler):
        def get_lr(self):
            return [0.5 for _ in self.base_lrs]

    schedule = Mine(optimizer_of(mt, optim))
    assert schedule.get_last_lr() == [0.5, 0.5] and isinstance(schedule, lr_scheduler.LRScheduler)


def test_averaged_model():
    torch = pytest.importorskip("torch")
    import torch.optim.swa_utils as theirs

    from metatensor.optim import swa_utils as ours

    for make in (lambda u: {}, lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)}, lambda u: {"avg_fn": u.get_swa_avg_fn()},
                 lambda u: {"avg_fn": u.get_ema_avg_fn(0.8), "use_buffers": True}):  # fmt: skip
        results = []
        for t, u in ((mt, ours), (torch, theirs)):
            model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
            averaged = u.AveragedModel(model, **make(u))
            with t.no_grad():
                for value in (1.0, 2.0, 5.0):
                    for p in model.parameters():
                        p.fill_(value)
                    model[1].running_mean.fill_(value)
                    averaged.update_parameters(model)
            results.append({k: v.flatten().tolist() for k, v in averaged.state_dict().items()})
        assert list(results[0]) == list(results[1])
        for key in results[0]:
            assert results[0][key] == pytest.approx(results[1][key])


def test_averaged_model_on_meta():
    from metatensor.optim import swa_utils

    model = mt.nn.Linear(2, 3, device="meta")
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    averaged.update_parameters(model)
    assert averaged.n_averaged.item() == 2 and averaged.module.weight.is_meta
    assert averaged(mt.empty(4, 2, device="meta")).shape == (4, 3)


def test_update_bn():
    torch = pytest.importorskip("torch")
    import torch.optim.swa_utils as theirs

    from metatensor.optim import swa_utils as ours

    data = [[[1.0, 2.0], [3.0, 5.0]], [[0.0, 2.0], [4.0, -1.0]]]
    found = []
    for t, u in ((mt, ours), (torch, theirs)):
        model = t.nn.BatchNorm1d(2).eval()
        u.update_bn([(t.tensor(d), 0) for d in data], model)
        assert not model.training and model.momentum == 0.1
        found.append((model.running_mean.tolist(), model.running_var.tolist()))
    assert found[0][0] == pytest.approx(found[1][0]) and found[0][1] == pytest.approx(found[1][1])


def test_nothing_is_warned_of_in_the_right_order():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = optimizer_of(mt, optim)
        schedule = lr_scheduler.StepLR(optimizer, 1)
        for _ in range(3):
            optimizer.step()
            schedule.step()
