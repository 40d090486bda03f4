"""The cpu device: NumPy arrays in host memory, SciPy's special functions, and low-precision floats from ml_dtypes."""

from metatensor.hookspecs import hookimpl


@hookimpl
def metatensor_devices(register):
    from metatensor_cpu.backend import CpuBackend

    register(CpuBackend())
