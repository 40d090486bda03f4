"""Errors of dispatch. Their messages name the op, the argument and the shapes."""

class DataDependentError(NotImplementedError):
    """Raised if a shape or value depends on the data of a tensor that has none."""

    declared: bool

class NoDataError(NotImplementedError):
    """Raised if the values of a tensor without data would be copied."""

class DeviceMismatchError(RuntimeError):
    """Raised if the tensors of a call are on different devices."""

class NotDifferentiableError(RuntimeError):
    """An argument requires grad, but its operator has no gradient for it."""

    def __init__(self, op: str, argument: str) -> None: ...

def multi_view_inplace(name: str) -> RuntimeError: ...
