"""Use of context managers as decorators."""

import functools


def run_inside(context, function):
    """Return a function that calls `function` inside `context`."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with context:
            return function(*args, **kwargs)

    return wrapper
