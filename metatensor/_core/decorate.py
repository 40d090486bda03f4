"""Use of context managers as decorators."""

import functools
import inspect


def run_inside(context, function):
    """Return a function that calls `function` inside `context`.

    The body of a generator function runs inside the context. The context is left whenever the generator yields.
    """
    if inspect.isgeneratorfunction(function):
        return _generate_inside(context, function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with context:
            return function(*args, **kwargs)

    return wrapper


def _generate_inside(context, function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        inner = function(*args, **kwargs)
        resume, value = inner.send, None
        while True:
            try:
                with context:
                    found = resume(value)
            except StopIteration as end:
                return end.value
            try:
                resume, value = inner.send, (yield found)
            except GeneratorExit:
                with context:
                    inner.close()
                raise
            except BaseException as error:
                resume, value = inner.throw, error

    return wrapper
