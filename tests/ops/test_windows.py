"""Window functions: metadata, values and errors compared with PyTorch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.fourier import attempt, described
from ops.pairs import find, same

OLD = ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window")
PLAIN = ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")
LENGTHS = st.integers(0, 12) | st.sampled_from([-1, 100])
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}


def alike(call):
    """Check that ``call(library, device)`` agrees with PyTorch on meta and on cpu."""
    import torch

    for device in ("meta", "cpu"):
        theirs, ours = attempt(call, torch, [device]), attempt(call, mt, [device])
        if isinstance(theirs, Exception):
            assert isinstance(ours, type(theirs)), (theirs, ours)
            continue
        if isinstance(ours, Exception):
            raise AssertionError(f"{device}: raised where PyTorch gives {theirs}") from ours
        assert described(ours) == described(theirs)
        assert (ours.requires_grad, ours.is_leaf) == (theirs.requires_grad, theirs.is_leaf)
        if device == "cpu":
            same(ours.detach(), theirs.detach(), TOLERANCE[str(theirs.dtype).removeprefix("torch.")])


def in_dtype(options):
    """Return the options with the library's dtype in place of its name."""

    def of(lib, device):
        given = {"dtype": getattr(lib, options["dtype"])} if options.get("dtype") else {}
        return {**options, **given, "device": device}

    return of


options = st.fixed_dictionaries({}, optional={"dtype": st.sampled_from([None, "float32", "float64"]), "requires_grad": st.booleans()}).map(
    in_dtype
)


@pytest.mark.torch
@settings(max_examples=150)
@given(st.sampled_from(OLD), LENGTHS, st.none() | st.booleans(), st.sampled_from([None, "float16", "bfloat16", "float64", "int64"]))
def test_old_functions(name, length, periodic, dtype):
    if name == "hann_window" and dtype == "int64":
        dtype = None  # PyTorch rejects it on cpu only
    given_ = () if periodic is None else (periodic,)
    alike(lambda lib, d: getattr(lib, name)(length, *given_, dtype=dtype and getattr(lib, dtype), device=d))


@pytest.mark.torch
@settings(max_examples=80)
@given(LENGTHS, st.booleans(), st.floats(0, 20), st.floats(0, 1))
def test_parameters_of_old_functions(length, periodic, first, second):
    alike(lambda lib, d: lib.kaiser_window(length, periodic, first, device=d, dtype=lib.float64))
    alike(lambda lib, d: lib.kaiser_window(length, periodic, beta=first, device=d))
    alike(lambda lib, d: lib.hamming_window(length, periodic, first, device=d))
    alike(lambda lib, d: lib.hamming_window(length, periodic, first, second, device=d, requires_grad=True))


@pytest.mark.torch
@settings(max_examples=150)
@given(st.sampled_from(PLAIN), LENGTHS, st.booleans(), options)
def test_plain_windows(name, length, sym, given_):
    alike(lambda lib, d: find(lib.signal.windows, name)(length, sym=sym, **given_(lib, d)))


@pytest.mark.torch
@settings(max_examples=150)
@given(LENGTHS, st.booleans(), options, st.floats(0.25, 8), st.none() | st.floats(-3, 12))
def test_windows_with_parameters(length, sym, given_, scale, center):
    alike(lambda lib, d: lib.signal.windows.exponential(length, tau=scale, center=center, sym=sym, **given_(lib, d)))
    alike(lambda lib, d: lib.signal.windows.gaussian(length, std=scale, sym=sym, **given_(lib, d)))
    alike(lambda lib, d: lib.signal.windows.kaiser(length, beta=scale, sym=sym, **given_(lib, d)))
    alike(lambda lib, d: lib.signal.windows.general_hamming(length, alpha=scale, sym=sym, **given_(lib, d)))
    alike(lambda lib, d: lib.signal.windows.general_cosine(length, a=[scale, 0.5, 1], sym=sym, **given_(lib, d)))


@pytest.mark.torch
@pytest.mark.parametrize(
    "call",
    [
        lambda w, d: w.hann(-1, device=d),
        lambda w, d: w.hann(5, dtype=find_dtype(w, "float16"), device=d),
        lambda w, d: w.kaiser(5, beta=-1, device=d),
        lambda w, d: w.gaussian(5, std=0, device=d),
        lambda w, d: w.exponential(5, tau=0, device=d),
        lambda w, d: w.exponential(5, center=1, device=d),
        lambda w, d: w.general_cosine(5, a=(), device=d),
        lambda w, d: w.general_cosine(5, a=3, device=d),
        lambda w, d: w.general_cosine(5, device=d),
        lambda w, d: w.hann(5.0, device=d),
    ],
)
def test_errors_of_windows(call):
    alike(lambda lib, d: call(lib.signal.windows, d))


def find_dtype(windows, name):
    import torch

    return getattr(torch if windows is torch.signal.windows else mt, name)


@pytest.mark.parametrize("name", OLD)
def test_errors_of_old_functions(name):
    window = getattr(mt, name)
    with pytest.raises(RuntimeError, match="must not be negative, got -1"):
        window(-1, device="meta")
    with pytest.raises(RuntimeError, match="floating-point dtype is needed, got int32"):
        window(5, dtype=mt.int32, device="meta")
    with pytest.raises(RuntimeError, match="only strided"):
        window(5, layout=mt.sparse_coo, device="meta")
    with pytest.raises(NotImplementedError, match="complex64"):
        window(5, dtype=mt.complex64, device="meta")
    for wrong in ((5.0,), (5, 1), (5, True, 0.5, 0.5, 0.5)):
        with pytest.raises(TypeError):
            window(*wrong, device="meta")


def test_defaults():
    with mt.device("meta"):
        assert mt.signal.windows.hann(4).is_meta and mt.hann_window(4).is_meta
        mt.set_default_dtype(mt.float64)
        assert mt.signal.windows.hann(4).dtype is mt.hann_window(4).dtype is mt.float64
    assert mt.signal.windows.nuttall(1, device="cpu").tolist() == [1]
