"""Names of the standard and their signatures, compared with array-api-strict."""

import inspect
import subprocess
import sys

import pytest

array_api_strict = pytest.importorskip("array_api_strict")

import metatensor as mt
from array_api.strict import function
from metatensor import array_api

# Names of array-api-strict that are not in this version of the standard.
NOT_STANDARD = {"Device", "ArrayAPIStrictFlags", "__version__", "broadcast_shapes", "isin"}


def names():
    """Return every name of the standard. Those of its extensions have a prefix."""
    top = [n for n in array_api_strict.__all__ if n not in NOT_STANDARD and "array_api_strict" not in n]
    return top + [f"linalg.{n}" for n in array_api_strict.linalg.__all__] + [f"fft.{n}" for n in array_api_strict.fft.__all__]


FUNCTIONS = [n for n in names() if inspect.isfunction(function(array_api_strict, n))]


def test_every_name_is_there():
    assert len(FUNCTIONS) > 170
    for name in names():
        function(array_api, name)
    public = set(array_api.__all__)
    assert public == {n for n in names() if "." not in n} == set(dir(array_api))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name):
    def shape(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    mine, other = shape(function(array_api, name)), shape(function(array_api_strict, name))
    # A device that is not given is None in the standard, and a marker in array-api-strict.
    other = [(n, kind, None if "Undef" in repr(default) else default) for n, kind, default in other]
    assert mine == other
    found = function(array_api, name)
    assert found.__name__ == name.rpartition(".")[2] and found.__doc__


def test_constants():
    for name in ("e", "inf", "pi", "newaxis"):
        assert getattr(array_api, name) == getattr(array_api_strict, name)
    assert array_api.nan != array_api.nan
    assert array_api.__array_api_version__ == "2024.12"


def test_the_namespace_of_a_tensor():
    for x in (mt.ones(2, device="meta"), mt.ones(2, device="cpu")):
        assert x.__array_namespace__() is array_api is mt.array_api
        for version in ("2021.12", "2022.12", "2023.12", "2024.12"):
            assert x.__array_namespace__(api_version=version) is array_api
        with pytest.raises(ValueError, match=r"2050\.12.*2024\.12"):
            x.__array_namespace__(api_version="2050.12")


def test_it_is_loaded_when_it_is_named():
    code = "import sys, metatensor as mt; print('metatensor.array_api' in sys.modules); mt.array_api.ones; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_info():
    info = array_api.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 72}
    with pytest.raises(RuntimeError):
        mt.ones([1] * 73, device="meta")
    assert mt.ones([1] * 72, device="meta").ndim == 72
    assert info.default_device() == mt.get_default_device()
    assert info.default_dtypes() == {
        "real floating": mt.float32, "complex floating": mt.complex64, "integral": mt.int64, "indexing": mt.int64,
    }
    theirs = array_api_strict.__array_namespace_info__()
    for kind in (None, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
                 ("bool", "integral"), ()):
        assert set(info.dtypes(kind=kind)) == set(theirs.dtypes(kind=kind))
        assert info.dtypes(kind=kind, device="meta") == {n: getattr(mt, n) for n in info.dtypes(kind=kind)}
    with pytest.raises(ValueError, match="unknown kind"):
        info.dtypes(kind="strings")
    devices = info.devices()
    assert mt.device("meta") in devices and mt.device("cpu") in devices
    for device in devices:
        assert array_api.ones(2, device=device).device == device
