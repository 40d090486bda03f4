"""The cuda device: NVIDIA GPUs through CuPy. Without CuPy or a GPU it still imports, and reports what is missing."""

from metatensor.hookspecs import hookimpl


@hookimpl
def metatensor_devices(register):
    from metatensor_cuda.backend import CudaBackend

    register(CudaBackend())
