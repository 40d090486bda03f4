"""Read recorded calls and build their arguments for the module under test.

The format of a record is described in ``README.md`` beside this file.
"""

import gzip
import importlib
import json
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


class Missing(Exception):
    """The module does not have a name that a record needs."""


def files(data=DATA):
    """Return the data files in a stable order."""
    return sorted(Path(data).glob("*.jsonl.gz"))


def read(paths, ops=None, sample=1, kinds=None, internal=True):
    """Yield the records in ``paths`` of the given ops and kinds. Read only every ``sample``-th record of the ops."""
    count = 0
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                # Every line begins with its op, so most lines can be skipped without parsing.
                if ops is not None and line[7 : line.index('"', 7)] not in ops:
                    continue
                count += 1
                if sample > 1 and count % sample:
                    continue
                record = json.loads(line)
                if kinds and record["k"] not in kinds:
                    continue
                if not internal and record.get("internal"):
                    continue
                yield record


def is_tensor(x):
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, type)


def min_storage(shape, stride, offset):
    """Return the size, in elements, of the smallest storage that holds a tensor of this layout."""
    if 0 in shape:
        return offset
    return offset + 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


class Decoder:
    """Builds the arguments of a record. ``inputs`` lists their tensors in order."""

    def __init__(self, module, device):
        self.module = module
        self.device = device
        self.inputs = []
        self._names = {}

    def attribute(self, name):
        if name not in self._names:
            try:
                self._names[name] = getattr(self.module, name)
            except AttributeError:
                raise Missing(name) from None
        return self._names[name]

    def tensor(self, spec):
        shape, stride, dtype, offset, *length = spec["T"]
        shape, stride = tuple(shape), tuple(stride)
        new = self.attribute("empty_strided")
        options = {"dtype": self.attribute(dtype), "device": self.device}
        if "a" in spec:  # shares storage with an earlier input
            t = self.inputs[spec["a"]].as_strided(shape, stride, offset)
        elif offset or length:
            elements = length[0] if length else min_storage(shape, stride, offset)
            t = new((elements,), (1,), **options).as_strided(shape, stride, offset)
        else:
            t = new(shape, stride, **options)
        if spec.get("c"):
            t = t.conj()
        if spec.get("n"):
            t = t._neg_view()
        self.inputs.append(t)
        return t

    def __call__(self, x):
        if isinstance(x, list):
            return [self(item) for item in x]
        if not isinstance(x, dict):
            return x
        if "T" in x:
            return self.tensor(x)
        ((tag, value),) = x.items()
        match tag:
            case "t":
                return tuple([self(item) for item in value])
            case "dt" | "mf" | "ly":
                return self.attribute(value)
            case "dev":
                return self.device
            case "sz":
                return tuple(value)
            case "sl":
                return slice(*[self(item) for item in value])
            case "E":
                return Ellipsis
            case "f":
                return float(value)
            case "cx":
                return complex(self(value[0]), self(value[1]))
            case "d":
                return {key: self(item) for key, item in value.items()}
        raise ValueError(f"unknown tag {tag!r}")


class Resolver:
    """Looks up dotted names in the module, with a cache."""

    def __init__(self, module):
        self.module = module
        self._found = {}

    def __call__(self, path):
        if path not in self._found:
            self._found[path] = self._resolve(path)
        found = self._found[path]
        if found is None:
            raise Missing(path)
        return found

    def _resolve(self, path):
        found, done = self.module, self.module.__name__
        for part in path.split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                try:
                    found = importlib.import_module(f"{done}.{part}")
                except Exception:
                    return None
            done += "." + part
        return found


def invoke(resolver, call, args, kwargs):
    """Make a recorded call."""
    how, path = call
    if how == "function":
        return resolver(path)(*args, **kwargs)
    receiver = args[0] if args else None
    if not is_tensor(receiver):  # only for recorded errors
        return resolver("Tensor." + path)(*args, **kwargs)
    try:
        attribute = getattr(receiver, path)
    except AttributeError:
        if not hasattr(type(receiver), path):
            raise Missing("Tensor." + path) from None
        raise
    return attribute if how == "property" else attribute(*args[1:], **kwargs)
