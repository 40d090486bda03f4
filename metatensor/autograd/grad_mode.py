"""Switching the recording of gradients on and off, for this thread."""

import functools

from metatensor._core.thread import _set_grad_enabled, _set_inference, is_grad_enabled

_GENERATOR = 0x20  # inspect.CO_GENERATOR; importing inspect takes longer than all of this


class _Switch:
    """A context manager that is a decorator too; generators keep the mode while they run."""

    __slots__ = ("_was",)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, *exc):
        raise NotImplementedError

    def clone(self):
        """Another switch like this one, so that decorated functions may call themselves."""
        return type(self)()

    def __call__(self, func):
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
    """Inside, operations record no gradients: ``with no_grad(): ...`` or ``@no_grad()``."""

    __slots__ = ()

    def __new__(cls, func=None):
        self = super().__new__(cls)
        return self if func is None else self(func)

    def __enter__(self):
        self._was = _set_grad_enabled(False)

    def __exit__(self, *exc):
        _set_grad_enabled(self._was)


class enable_grad(_Switch):
    """Inside, operations record gradients, also within `no_grad`."""

    __slots__ = ()

    def __new__(cls, func=None):
        self = super().__new__(cls)
        return self if func is None else self(func)

    def __enter__(self):
        self._was = _set_grad_enabled(True)

    def __exit__(self, *exc):
        _set_grad_enabled(self._was)


class set_grad_enabled(_Switch):
    """Switch gradients on or off: at once, and as a context manager until its end."""

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
        _set_grad_enabled(self._was)  # as a decorator it acts inside the function only
        return super().__call__(func)


class inference_mode(_Switch):
    """Inside, no gradients are recorded and results can never require them."""

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
    """Without effect: there is no backward to run in threads. A function and a context manager."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None
