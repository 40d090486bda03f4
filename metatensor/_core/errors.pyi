"""The messages of errors; every one is built here, from op, argument and shapes."""

class DataDependentError(NotImplementedError):
    """A shape or value depends on data that a tensor without data does not have."""

class NoDataError(NotImplementedError):
    """A tensor's values are to be copied, and it holds none."""

class DeviceMismatchError(RuntimeError):
    """Tensors are on different devices."""
