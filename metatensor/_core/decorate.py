"""A context manager as a decorator."""

import functools


def run_inside(context, function):
    """`function`, run inside `context` at every call."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with context:
            return function(*args, **kwargs)

    return wrapper
