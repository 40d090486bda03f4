"""The cpu device: host memory through NumPy, with SciPy's special functions and the small floats of ml_dtypes."""

from metatensor.hookspecs import hookimpl


@hookimpl
def metatensor_devices(register):
    from metatensor_cpu.backend import CpuBackend

    register(CpuBackend())
