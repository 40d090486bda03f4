"""Describe the result of a call, and compare it with the recorded one.

The only aliasing that is compared is whether tensors share a storage (`shares_storage`).
"""

from .records import is_tensor

# Kinds of differences that leave nesting, shape and dtype equal.
LOOSE_OK = {"stride", "stride-trivial", "offset", "alias"}


def storage_key(tensor):
    """Return a key that is equal for tensors that share storage, or None if the module cannot tell."""
    try:
        storage = tensor.untyped_storage()
    except Exception:
        return None
    return getattr(storage, "_cdata", storage)


def shares_storage(a_key, b_key):
    """Return whether two keys belong to the same storage, or None if this is not known."""
    if a_key is None or b_key is None:
        return None
    return a_key is b_key or a_key == b_key


def dtype_name(dtype):
    return str(dtype).rsplit(".", 1)[-1]


def describe(out, inputs, keys):
    """Return a description of a result in the format of the records. ``keys`` are the storage keys of ``inputs``."""
    if is_tensor(out):
        return describe_tensor(out, inputs, keys)
    if out is None:
        return None
    if isinstance(out, (bool, int, float, complex, str)):
        kind = next(t.__name__ for t in (bool, int, float, complex, str) if isinstance(out, t))
        return {"py": kind, "v": out} if kind in ("bool", "int") else {"py": kind}
    if type(out).__name__ == "dtype":
        return {"dt": dtype_name(out)}
    if isinstance(out, dict):
        return {"d": {str(k): describe(v, inputs, keys) for k, v in out.items()}}
    if isinstance(out, (tuple, list)) or hasattr(out, "__iter__"):
        if type(out).__name__ == "Size":
            return {"sz": [int(i) for i in out]}
        return [describe(item, inputs, keys) for item in out]
    return {"py": type(out).__name__}


def describe_tensor(out, inputs, keys):
    shape, stride = [int(n) for n in out.shape], [int(n) for n in out.stride()]
    found = {"T": [shape, stride, dtype_name(out.dtype), int(out.storage_offset())]}
    key = storage_key(out)
    unknown = False
    for index, (tensor, other) in enumerate(zip(inputs, keys, strict=True)):
        shared = True if out is tensor else shares_storage(key, other)
        if shared:
            found["s"] = index
            return found
        unknown = unknown or shared is None
    if unknown:
        found["s"] = "?"
    return found


def stride_issue(shape, expected, got):
    """Return "stride" if strides differ, "stride-trivial" if only those without meaning do, or None if they are equal."""
    if expected == got:
        return None
    if len(expected) != len(got):
        return "stride"
    if 0 not in shape and any(a != b and n > 1 for n, a, b in zip(shape, expected, got, strict=True)):
        return "stride"
    return "stride-trivial"


def compare(expected, got, issues):
    """Add the kind of each difference between ``got`` and ``expected`` to the set ``issues``."""
    if expected is None or got is None:
        if expected is not got:
            issues.add("structure")
    elif isinstance(expected, list):
        if isinstance(got, dict) and "sz" in got:
            got = [{"py": "int", "v": n} for n in got["sz"]]
        if not isinstance(got, list) or len(got) != len(expected):
            issues.add("structure")
            return
        for e, g in zip(expected, got, strict=True):
            compare(e, g, issues)
    elif "sz" in expected:
        compare_size(expected["sz"], got, issues)
    elif not isinstance(got, dict):
        issues.add("structure")
    elif "T" in expected:
        compare_tensor(expected, got, issues)
    elif "py" in expected:
        if got.get("py") != expected["py"]:
            issues.add("pytype" if "py" in got else "structure")
        elif "v" in expected and expected["v"] != got.get("v"):
            issues.add("value")
    elif "dt" in expected:
        if got.get("dt") != expected["dt"]:
            issues.add("dtype" if "dt" in got else "structure")
    elif "d" in expected and sorted(expected["d"]) == sorted(got.get("d", [None])):
        for key in expected["d"]:
            compare(expected["d"][key], got["d"][key], issues)
    else:
        issues.add("structure")


def compare_size(expected, got, issues):
    if isinstance(got, dict) and "sz" in got:
        sizes = got["sz"]
    elif isinstance(got, list) and all(isinstance(g, dict) and g.get("py") == "int" for g in got):
        sizes = [g["v"] for g in got]
    else:
        issues.add("structure")
        return
    if sizes != expected:
        issues.add("value")


def compare_tensor(expected, got, issues):
    if "T" not in got:
        issues.add("structure")
        return
    (shape, stride, dtype, offset), (g_shape, g_stride, g_dtype, g_offset) = expected["T"], got["T"]
    if shape != g_shape:
        issues.add("shape")
    elif stride != g_stride:
        issues.add(stride_issue(shape, stride, g_stride))
    if dtype != g_dtype:
        issues.add("dtype")
    if offset != g_offset:
        issues.add("offset")
    if got.get("s") != "?" and expected.get("s") != got.get("s"):
        issues.add("alias")


def is_error(result):
    return isinstance(result, dict) and "error" in result


def expectations(record):
    """Return the accepted results, the preferred one first."""
    return [record[k] for k in ("meta", "cpu", "alt") if k in record and not is_error(record[k])]


def wanted_errors(record):
    """Return ``(class name, built-in base)`` of the accepted exceptions."""
    found = [record.get("cpu"), record.get("meta")]
    return [(e["error"], e.get("base", e["error"])) for e in found if is_error(e) and not e.get("lack")]


def error_matches(error, wanted):
    """Return True if the class of an exception, or one of its bases, has the name of an accepted class."""
    names = [c.__name__ for c in type(error).__mro__]
    if "RecursionError" in names:
        return False
    for name, base in wanted:
        # NotImplementedError derives from RuntimeError but says nothing about the arguments, so it does not match
        # RuntimeError.
        if "NotImplementedError" in (name, base) or "NotImplementedError" in names:
            if "NotImplementedError" in (name, base) and "NotImplementedError" in names:
                return True
        elif name in names or base in names:
            return True
    return False
