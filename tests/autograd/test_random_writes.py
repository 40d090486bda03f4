"""Random programs of views and writes give the values, gradients and errors that PyTorch gives.

One of several views (`split`) is left out: PyTorch refuses to differentiate it after its base was changed.
"""

import random

import pytest

import metatensor as mt

VIEWS = [
    lambda t, r: t[r.randrange(t.shape[0])] if t.dim() > 1 else t[r.randrange(t.shape[0]) :],
    lambda t, r: t.t() if t.dim() == 2 else t.unsqueeze(0),
    lambda t, r: t.view(-1) if t.is_contiguous() else t.transpose(0, -1),
    lambda t, r: t[..., ::2],
    lambda t, r: t.narrow(0, 0, t.shape[0] // 2 + 1),
    lambda t, r: t.unsqueeze(-1),
    lambda t, r: t.detach() if r.random() < 0.3 else t.view_as(t),
    lambda t, r: t.diagonal() if t.dim() == 2 else t.squeeze(),
    lambda t, r: t.as_strided((t.shape[-1],), (t.stride(-1),), t.storage_offset()),
]
WRITES = [
    lambda t, o, r: t.mul_(2),
    lambda t, o, r: t.add_(1),
    lambda t, o, r: t.mul_(o),
    lambda t, o, r: t.add_(o),
    lambda t, o, r: t.copy_(o),
    lambda t, o, r: t.zero_(),
    lambda t, o, r: t.sin_(),
    lambda t, o, r: t.__setitem__(0, 3.0),
    lambda t, o, r: t.sub_(o.sum()),
    lambda t, o, r: t.masked_fill_(t > 1, 0.5),
]


def run(module, seed):
    """Run a program. Return what it printed: values, gradients, names, and the classes of errors."""
    r = random.Random(seed)
    said = []
    x = module.arange(12, dtype=module.float64, device="cpu").reshape(3, 4).div(10).requires_grad_()
    w = module.tensor(1.5, dtype=module.float64, device="cpu", requires_grad=True)
    tensors = [x * 1, module.zeros(3, 4, dtype=module.float64, device="cpu")]
    for _ in range(r.randrange(2, 9)):
        t = r.choice(tensors)
        try:
            if r.random() < 0.5:
                tensors.append(r.choice(VIEWS)(t, r))
            elif r.random() < 0.3:
                tensors.append(t * w)
            else:
                other = r.choice([w, r.choice(tensors)])
                with module.set_grad_enabled(r.random() > 0.1):
                    r.choice(WRITES)(t, other, r)
        except (RuntimeError, IndexError, ValueError) as error:
            return [RuntimeError if isinstance(error, RuntimeError) else type(error), str(error)]
    said += [t.detach().tolist() for t in tensors] + [t.requires_grad for t in tensors]
    roots = [t for t in tensors if t.requires_grad]
    try:
        found = module.autograd.grad([t.sum() for t in roots], [x, w], allow_unused=True) if roots else ()
        said += [None if g is None else g.tolist() for g in found]
    except RuntimeError:
        said.append("RuntimeError")
    return said


def close(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(p, q) for p, q in zip(a, b, strict=True))
    return a == pytest.approx(b, rel=1e-9, abs=1e-12, nan_ok=True) if isinstance(a, float) and isinstance(b, float) else a == b


@pytest.mark.torch
def test_random_programs_agree_with_pytorch():
    torch = pytest.importorskip("torch")
    wrong, errors = [], 0
    for seed in range(1000):
        ours, theirs = run(mt, seed), run(torch, seed)
        if isinstance(theirs[0], type):
            errors += 1
            # PyTorch does not look whether the base of a view got its history by a write before it is written to again.
            if "a leaf Variable" not in theirs[1] and ours[0] is not theirs[0]:
                wrong.append(seed)
        elif not close(ours, theirs):
            wrong.append(seed)
    assert not wrong and 20 < errors < 200
