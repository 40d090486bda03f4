"""Parser for operator schemas: "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor"."""
cimport cython

# Type names, in the order of SlotKind in op.pxd.
_KINDS = ("Tensor", "Tensor|Scalar", "Tensor[]", "Scalar", "int", "int[]", "float", "float[]",
          "bool", "bool[]", "str", "dtype", "device", "layout", "memory_format", "generator", "any")
_KIND = {name: number for number, name in enumerate(_KINDS)}


class SchemaError(ValueError):
    """Raised if a schema cannot be parsed."""


@cython.final
cdef class Argument:
    """One argument of a schema."""
    cdef readonly str name, type
    cdef readonly int kind, repeat
    cdef readonly bint optional, mutated, aliased, kwonly, required
    cdef readonly object default

    def __repr__(self):
        return f"Argument({self.type} {self.name})"


@cython.final
cdef class Schema:
    """A parsed schema. `returns` is a list of (type, name or None)."""
    cdef readonly str name, text
    cdef readonly list arguments, returns
    cdef readonly bint returns_list

    def _admits(self, result, tensor):
        """Return True if `result` has the number and kinds of results of the schema. ``tensor`` is the class of tensors."""
        if self.returns_list:
            return isinstance(result, (list, tuple)) and all([isinstance(r, tensor) for r in result])
        kinds = [kind for kind, _ in self.returns]
        if len(kinds) == 1:
            return _fits(kinds[0], result, tensor)
        return not kinds or (isinstance(result, tuple) and len(result) == len(kinds)
                             and all([_fits(k, r, tensor) for r, k in zip(result, kinds)]))


def _fits(kind, result, tensor):
    """Return True if one result matches its type. Types other than tensors match anything."""
    return not kind.startswith("Tensor") or isinstance(result, tensor) or (result is None and kind.endswith("?"))


def _split(text):
    """Split `text` at commas outside brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, None
    for i, ch in enumerate(text):
        if quote:
            if ch == quote:
                quote = None
        elif ch in "'\"":
            quote = ch
        elif ch in "([":
            depth += 1
        elif ch in ")]":
            depth -= 1
        elif ch == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


cdef bint _read_type(Argument a) except -1:
    """Parse `a.type`, a text of the form NAME(ALIAS)[REPEAT]?, into the attributes of `a`. Return False if there is no
    such type."""
    cdef str name = a.type.removesuffix("?"), alias = "", repeat = ""
    cdef bint several = name.endswith("]")
    a.optional = name != a.type
    if several:
        name, _, repeat = name[:-1].partition("[")
    a.aliased = name.endswith(")")
    if a.aliased:
        name, _, alias = name[:-1].partition("(")
        a.mutated = alias.endswith("!")
        alias = alias.removesuffix("!")
    if "[" in name or (repeat and not repeat.isdecimal()) or (a.aliased and not (len(alias) == 1 and "a" <= alias <= "z")):
        return False
    if several:
        name += "[]"
    if name not in _KIND:
        return False
    a.kind = _KIND[name]
    a.repeat = int(repeat) if repeat else 0
    return True


cdef Argument _argument(str part, bint kwonly, str text):
    cdef Argument a = Argument.__new__(Argument)
    left, eq, default = part.partition("=")
    words = left.split()
    if len(words) != 2:
        raise SchemaError(f"expected TYPE NAME, got {part!r} in {text!r}")
    a.type, a.name = words
    if not _read_type(a):
        raise SchemaError(f"unknown type {a.type!r} in {text!r}")
    if not a.name.isidentifier():
        raise SchemaError(f"{a.name!r} is not a valid argument name, in {text!r}")
    a.kwonly = kwonly
    a.required = not eq
    if eq:
        import ast      # slow to import, and not needed until an op is called
        try:
            a.default = ast.literal_eval(default.strip())
        except (ValueError, SyntaxError):
            raise SchemaError(f"cannot read the default {default.strip()!r} in {text!r}") from None
        if isinstance(a.default, list):
            a.default = tuple(a.default)
    return a


cdef bint _is_name(str text):
    """Whether `text` is the name of an operator: an identifier that may have dots and colons in it."""
    return text[:1] not in (".", ":") and text.replace(".", "_").replace(":", "_").isidentifier()


def parse(str text not None):
    """Return the parsed schema of an operator. Raise SchemaError if it is malformed."""
    cdef Schema s = Schema.__new__(Schema)
    head, _, returns = [part.strip() for part in text.rpartition("->")]
    name, _, arguments = head.partition("(")
    s.name = name.strip()
    s.text = text
    s.arguments = []
    if not (_is_name(s.name) and arguments.endswith(")") and returns):
        raise SchemaError(f"expected NAME(ARGUMENTS) -> RESULT, got {text!r}")
    kwonly = False
    for part in _split(arguments[:-1]):
        if part == "*":
            kwonly = True
            continue
        s.arguments.append(_argument(part, kwonly, text))
    names = [(<Argument>a).name for a in s.arguments]
    if len(set(names)) != len(names):
        raise SchemaError(f"an argument is named twice in {text!r}")
    s.returns_list = False
    s.returns = []
    if returns.startswith("(") and returns.endswith(")"):
        for part in _split(returns[1:-1]):
            words = part.split()
            s.returns.append((words[0], words[1] if len(words) > 1 else None))
    else:
        s.returns_list = returns.endswith("[]")
        s.returns.append((returns, None))
    return s
