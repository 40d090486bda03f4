"""Context managers and decorators that set the gradient mode of the current thread."""

from metatensor._core.thread import _set_grad_enabled, _set_inference, is_grad_enabled

_GENERATOR = 0x20  # inspect.CO_GENERATOR, copied because importing inspect takes longer than the rest of this module


class _Switch:
    """A context manager and decorator. A decorated generator function has the mode whenever its body runs."""

    __slots__ = ("_was",)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, *exc):
        raise NotImplementedError

    def clone(self):
        """Return a new switch with the same mode. Each call of a decorated function uses its own, so recursion works."""
        return type(self)()

    def __call__(self, func):
        import functools  # takes longer than the rest of this module

        if getattr(getattr(func, "__code__", None), "co_flags", 0) & _GENERATOR:

            @functools.wraps(func)
            def generator(*args, **kwargs):
                iterator = func(*args, **kwargs)
                value = None
                while True:
                    try:
                        with self.clone():
                            result = iterator.send(value)
                    except StopIteration as stop:
                        return stop.value
                    value = yield result

            return generator

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            with self.clone():
                return func(*args, **kwargs)

        return wrapper


class no_grad(_Switch):
    """A context manager or decorator that disables gradients.

    Results computed inside do not require grad.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(3, device="meta", requires_grad=True)
    >>> with mt.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()

    def __new__(cls, func=None):
        self = super().__new__(cls)
        return self if func is None else self(func)

    def __enter__(self):
        self._was = _set_grad_enabled(False)

    def __exit__(self, *exc):
        _set_grad_enabled(self._was)


class enable_grad(_Switch):
    """A context manager or decorator that enables gradients, also inside `no_grad`.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(3, device="meta", requires_grad=True)
    >>> with mt.no_grad(), mt.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    __slots__ = ()

    def __new__(cls, func=None):
        self = super().__new__(cls)
        return self if func is None else self(func)

    def __enter__(self):
        self._was = _set_grad_enabled(True)

    def __exit__(self, *exc):
        _set_grad_enabled(self._was)


class set_grad_enabled(_Switch):
    """Set whether gradients are enabled. Also a context manager or decorator.

    Calling it changes the mode immediately. As a context manager it restores the previous mode on exit. As a
    decorator it changes the mode only while the function runs.

    Parameters
    ----------
    mode : bool
        Whether to enable gradients.

    Raises
    ------
    TypeError
        If `mode` is not a bool.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.set_grad_enabled(False):
    ...     mt.is_grad_enabled()
    False
    """

    __slots__ = ("mode",)

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled: expected a bool, got {type(mode).__name__}")
        self.mode = mode
        self._was = _set_grad_enabled(mode)

    def __enter__(self):
        _set_grad_enabled(self.mode)

    def __exit__(self, *exc):
        _set_grad_enabled(self._was)

    def clone(self):
        return set_grad_enabled(self.mode)

    def __call__(self, func):
        _set_grad_enabled(self._was)  # undo __init__, because a decorator changes the mode only inside the function
        return super().__call__(func)


class inference_mode(_Switch):
    """A context manager or decorator that disables gradients and creates inference tensors.

    Parameters
    ----------
    mode : bool
        Whether to enter inference mode. False leaves it and enables gradients. Default True.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.inference_mode():
    ...     x = mt.empty(3, device="meta")
    >>> x.is_inference()
    True
    """

    __slots__ = ("_inference", "mode")

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = bool(mode)
        return self

    def __enter__(self):
        self._was = is_grad_enabled()
        self._inference = _set_inference(self.mode)
        _set_grad_enabled(not self.mode)

    def __exit__(self, *exc):
        _set_inference(self._inference)
        _set_grad_enabled(self._was)

    def clone(self):
        return inference_mode(self.mode)


class set_multithreading_enabled:
    """A function and context manager that has no effect, because there is no backward pass to run in threads."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None
