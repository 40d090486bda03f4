"""A stand-in for CuPy where there is no GPU: NumPy's functions behind CuPy's manners.

Arrays are of a class of their own, its functions take no NumPy arrays, and what CuPy 14 lacks of NumPy and of
scipy.special is not there. Devices, memory and driver figures are made up.
"""

from types import SimpleNamespace

import numpy as np


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class ndarray(np.ndarray):
    """An array "on a device"."""

    _fake_device = 0

    def __array_finalize__(self, base):
        self._fake_device = getattr(base, "_fake_device", None) or 0

    @property
    def device(self):
        return SimpleNamespace(id=self._fake_device)

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return np.array(self.view(np.ndarray))

    def __setitem__(self, key, value):
        if type(value) is np.ndarray and value.ndim:
            raise TypeError("Implicit conversion of a host array: use asarray()")
        super().__setitem__(key, value)

    def __dlpack_device__(self):
        return (2, self._fake_device)

    @property
    def __cuda_array_interface__(self):
        known = {key: value for key, value in super().__array_interface__.items() if key != "version"}
        return known | {"version": 3, "stream": 1}


MISSING = {
    "numpy": """asmatrix block bmat einsum_path frompyfunc fromregex geomspace geterr histogram_bin_edges insert isnat matvec
        nanpercentile nanquantile nested_iters polyder polydiv polyint seterr spacing unstack vecdot vecmat errstate""",
    "numpy.linalg": "diagonal matrix_norm multi_dot outer svdvals tensordot trace vecdot vector_norm",
    "numpy.fft": "",
    "scipy.special": """agm airy airye assoc_laguerre bei ber bernoulli btdtria comb dawsn diric ellipe erfi eval_chebyc eval_chebys
        eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_hermite eval_hermitenorm eval_jacobi eval_laguerre
        eval_legendre eval_sh_chebyt eval_sh_chebyu eval_sh_legendre factorial factorial2 fresnel hankel1 hankel2 hyp0f1 hyp1f1
        hyp2f1 hyperu iv ive jn jv jve kelvin kn kolmogorov kv kve owens_t perm powm1 smirnov softplus spence spherical_jn
        stdtr stirling2 struve voigt_profile wofz wrightomega yv yve""",
}


def _refuse(value):
    if type(value) is np.ndarray and value.ndim:
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        for item in value:
            _refuse(item)


PROPERTIES = {
    "totalGlobalMem": 1 << 34, "major": 9, "minor": 0, "multiProcessorCount": 132, "maxThreadsPerMultiProcessor": 2048,
    "sharedMemPerBlock": 49152, "warpSize": 32,
}  # fmt: skip


class Function:
    """A function of NumPy or SciPy, or a ufunc with its methods, that takes and returns arrays of the stand-in."""

    def __init__(self, module, function):
        self.module, self.function = module, function

    def __call__(self, *args, **kwargs):
        for value in (*args, *kwargs.values()):
            _refuse(value)
        return self.module._result(self.function(*args, **kwargs))

    def __getattr__(self, name):
        found = getattr(self.function, name)
        return Function(self.module, found) if callable(found) else found


class Module:
    """A module behind the stand-in's manners."""

    def __init__(self, module, root=None):
        self.module, self.root = module, root or self
        self.missing = set(MISSING[module.__name__].split())

    def _result(self, result):
        if isinstance(result, tuple) and hasattr(result, "_fields"):
            return type(result)(*map(self._result, result))
        if isinstance(result, (list, tuple)):
            return type(result)(map(self._result, result))
        if isinstance(result, np.generic):
            result = np.asarray(result)
        return self.root._own(result) if isinstance(result, np.ndarray) else result

    def __getattr__(self, name):
        if name in self.missing:
            raise AttributeError(f"CuPy has no {self.module.__name__}.{name}")
        found = getattr(self.module, name)
        if isinstance(found, type(np)):
            return Module(found, self.root)
        return Function(self, found) if callable(found) and not isinstance(found, type) else found


class FakeCupy(Module):
    """The module. ``count`` devices; ``failure`` is what the driver answers instead, as (status, text)."""

    __name__ = "fake_cupy"
    ndarray = ndarray

    def __init__(self, count=2, failure=None, driver=12040, needed=12090, limit=1 << 40):
        super().__init__(np)
        self.count, self.failure, self.limit = count, failure, limit
        self.current = 0
        self.synchronized = []
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=self._as_strided))
        self.cuda = SimpleNamespace(
            Device=self._device,
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                getDeviceCount=self._device_count,
                getDevice=lambda: self.current,
                setDevice=lambda index: setattr(self, "current", index),
                getDeviceProperties=lambda index: PROPERTIES | {"name": f"Fake {index}".encode()},
                driverGetVersion=lambda: driver,
                runtimeGetVersion=lambda: needed,
                memGetInfo=lambda: (1 << 30, 1 << 34),
            ),
        )

    def _device_count(self):
        if self.failure is not None:
            raise CUDARuntimeError(*self.failure)
        return self.count

    def _device(self, index):
        return FakeDevice(self, index)

    def get_default_memory_pool(self):
        return SimpleNamespace(total_bytes=lambda: 4096, free_all_blocks=lambda: None)

    def empty(self, shape, dtype="f8"):
        if np.prod(shape, dtype=object) * np.dtype(dtype).itemsize > self.limit:
            raise MemoryError("Out of memory allocating")
        return self._own(np.empty(shape, dtype))

    def asarray(self, value, dtype=None):
        return value if isinstance(value, ndarray) and dtype in (None, value.dtype) else self._own(np.array(value, dtype))

    def asnumpy(self, array):
        return array.get() if isinstance(array, ndarray) else np.asarray(array)

    def from_dlpack(self, producer):
        return self._own(np.from_dlpack(producer))

    def _as_strided(self, array, shape=None, strides=None):
        made = np.lib.stride_tricks.as_strided(array, shape, strides, subok=True).view(ndarray)
        made._fake_device = array._fake_device
        return made

    def _own(self, array):
        array = array.view(ndarray)
        array._fake_device = self.current
        return array


class FakeDevice:
    """Context manager: the current device."""

    def __init__(self, module, index):
        self.module, self.id = module, index

    def __enter__(self):
        self.before, self.module.current = self.module.current, self.id
        return self

    def __exit__(self, *exc):
        self.module.current = self.before

    def synchronize(self):
        self.module.synchronized.append(self.id)
