"""torch.amp: the names of autocast, and the gradient scaler compared with PyTorch's."""

import warnings

import pytest

import metatensor as mt
from metatensor.torch_api import torch as mtorch


def both():
    yield mtorch, mt
    try:
        import torch
    except ImportError:
        return
    yield torch, torch


def test_the_names_lead_to_one_autocast():
    assert mtorch.autocast is mtorch.amp.autocast is mtorch.amp.autocast_mode.autocast
    assert issubclass(mtorch.autocast, mt.amp.autocast)
    assert issubclass(mtorch.cuda.amp.autocast, mtorch.autocast) and mtorch.cuda.amp.autocast_mode.autocast is mtorch.cuda.amp.autocast
    assert mtorch.cuda.amp.grad_scaler.GradScaler is mtorch.cuda.amp.GradScaler and mtorch.cuda.amp.common.__all__
    from metatensor.torch_api.torch.cpu.amp.autocast_mode import autocast

    with autocast():
        assert mtorch.is_autocast_cpu_enabled() and mtorch.get_autocast_cpu_dtype() == mt.bfloat16
    mode = mtorch.amp._enter_autocast("cpu", None, True, None)
    assert mtorch.is_autocast_enabled("cpu")
    mtorch.amp._exit_autocast(mode)
    assert not mtorch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("available", [False, True])
def test_an_autocast_for_cuda_casts_whether_or_not_there_is_a_device(monkeypatch, available):
    monkeypatch.setattr(mtorch.cuda, "is_available", lambda: available)
    x = mt.empty(2, 2, device="meta")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mtorch.autocast("cuda", dtype=mt.bfloat16):
            assert mtorch.is_autocast_enabled("cuda") and mtorch.get_autocast_gpu_dtype() == mt.bfloat16
            assert (x @ x).dtype == mt.bfloat16
        with mtorch.autocast("cuda", enabled=False):
            assert not mtorch.is_autocast_enabled("cuda")
    with mtorch.cuda.amp.autocast(dtype=mt.bfloat16):
        assert (x @ x).dtype == mt.bfloat16


def test_older_switches():
    mtorch.set_autocast_enabled(True)
    mtorch.set_autocast_cpu_enabled(True)
    mtorch.set_autocast_gpu_dtype(mt.bfloat16)
    try:
        assert mtorch.is_autocast_enabled("cuda") and mtorch.is_autocast_cpu_enabled()
        assert mtorch.get_autocast_dtype("cuda") == mt.bfloat16
    finally:
        mtorch.set_autocast_gpu_dtype(mt.float16)
        mtorch.set_autocast_enabled("cuda", False)
        mtorch.set_autocast_cpu_enabled(False)
    assert mtorch.autocast_increment_nesting() == 1 and mtorch.autocast_decrement_nesting() == 0


def session(api, t):
    """Return scales, parameters and states of a scaler over a few steps."""
    seen = []
    scaler = api.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    p = t.nn.Parameter(t.ones(2))
    optimizer = api.optim.SGD([p], lr=1.0)
    for grad in ([8.0, 16.0], [4.0, 4.0], [float("inf"), 1.0], [8.0, 8.0]):
        seen.append(scaler.scale(t.ones(2)).tolist())
        p.grad = t.tensor(grad)
        scaler.step(optimizer)
        scaler.update()
        seen.append((p.tolist(), p.grad.tolist(), scaler.state_dict()))
    seen.append([v.tolist() for v in scaler.scale([t.ones(1), t.ones(1)])])
    scaler.update(3.0)
    seen.append(scaler.get_scale())
    other = api.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    seen.append((other.state_dict(), other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval()))
    return seen


def test_scaler():
    results = [session(api, t) for api, t in both()]
    assert all(r == results[0] for r in results)


@pytest.mark.parametrize(
    "act, error",
    [
        (lambda s, o: s.update(), AssertionError),
        (lambda s, o: s.step(o), AssertionError),
        (lambda s, o: (s.scale(o.param_groups[0]["params"][0]), s.step(o)), AssertionError),
        (lambda s, o: s.scale(3), ValueError),
        (lambda s, o: s.load_state_dict({}), RuntimeError),
        (lambda s, o: (s.scale(o.param_groups[0]["params"][0]), s.unscale_(o), s.unscale_(o)), RuntimeError),
        (lambda s, o: s.step(o, closure=lambda: 1), RuntimeError),
    ],
)
def test_scaler_refuses(act, error):
    for api, t in both():
        p = t.nn.Parameter(t.ones(2))
        with pytest.raises(error):
            act(api.amp.GradScaler("cpu"), api.optim.SGD([p]))
    for api, _ in both():
        for options in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
            with pytest.raises(AssertionError):
                api.amp.GradScaler("cpu", **options)


def test_scaler_without_its_device_is_disabled():
    for api, t in both():
        with pytest.warns(UserWarning, match="[Dd]isabl"):
            scaler = api.amp.GradScaler("cuda")
        x = t.ones(2)
        p = t.nn.Parameter(t.ones(1))
        p.grad = t.ones(1)
        optimizer = api.optim.SGD([p], lr=1.0)
        assert scaler.scale(x) is x and scaler.get_scale() == 1.0 and scaler.state_dict() == {} and not scaler.is_enabled()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert p.item() == 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            api.amp.GradScaler("cuda", enabled=False)


def test_scaler_on_meta():
    p = mt.nn.Parameter(mt.empty(2, device="meta"))
    p.grad = mt.empty_like(p)
    scaler = mtorch.amp.GradScaler("cpu")
    scaler.scale(mt.empty(1, device="meta"))
    scaler.step(mtorch.optim.SGD([p], lr=1.0))
    scaler.update()
    assert scaler.get_scale() == 2.0**16
