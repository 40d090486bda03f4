"""The cuda device: NVIDIA GPUs through CuPy. Imports, and says what is missing, where there is no CuPy or no GPU."""

from metatensor.hookspecs import hookimpl


@hookimpl
def metatensor_devices(register):
    from metatensor_cuda.backend import CudaBackend

    register(CudaBackend())
