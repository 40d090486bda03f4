"""Programs that call ops, based on the schemas of the registry and on the recorded calls of tests/oracle."""

import json

import metatensor as mt
from metatensor._core import op
from metatensor._core.schema import parse
from oracle import records

from .values import COMMON, DTYPES, EXTREME, KEYWORDS

OUT = 2


class Ops:
    """The registered ops and their schemas, in a stable order, so that a seed always gives the same calls."""

    def __init__(self, only=None):
        self.schemas = {}
        for name in sorted(op.registry):
            if "::" in name or (only and name not in only and op.registry[name].name not in only):
                continue
            found = op.registry[name]
            self.schemas[name] = [(parse(text), overload) for text, overload in zip(found.schemas, found.overloads)]
        self.names = list(self.schemas)
        self.recorded = None

    def records(self):
        """The recorded calls as (call, args, kwargs). Of each op, only the shortest few dozen are kept."""
        if self.recorded is None:
            by_op = {}
            wanted = {n.rpartition(".")[2] for n in self.names}
            for record in records.read(records.files()):
                if record["call"][1].rpartition(".")[2] in wanted or not record["op"][0].isalpha():
                    by_op.setdefault((record["op"], record["k"]), []).append(record)
            self.recorded = []
            for group in by_op.values():
                step = max(1, len(group) // 40)
                self.recorded.extend((r["call"], r["args"], r["kw"]) for r in group[::step])
        return self.recorded


def lists_tensors(schema):
    """Return True if an op returns a list of tensors, whose length may follow from a huge size."""
    return schema.returns_list or any(kind.endswith("[]") for kind, _ in schema.returns)


SLOW = ("combinations", "cartesian_prod", "vander", "tolist", "einsum", "gradient", "block_diag", "index_put", "repeat",
        "lowrank", "mvlgamma", "multigamma")  # their time or memory grows with an argument


def from_schema(v, ops, name=None):
    """Return lines that call one op with arguments for one of its schemas."""
    name = name or v.pick(ops.names)
    schema, overload = v.pick(ops.schemas[name])
    called = op.registry[name]
    if lists_tensors(schema) or any(word in name for word in SLOW):
        v.huge = False
        v.extreme = [65, 1000, -(2**63), -(2**70), 2**64]
        v.forms = [f for f in v.forms if f != "huge"]
    args, kwargs = [], []
    by_keyword = False
    for a in schema.arguments:
        if not a.required and v.chance(0.45):
            by_keyword = True  # the following arguments must be keywords
            continue
        text = v.by_type(a.type, a.name)
        if a.kwonly or by_keyword or (args and v.chance(0.08)):
            by_keyword = True
            kwargs.append(f"{a.name}={text}")
        else:
            args.append(text)
    if called.flags & OUT and v.chance(0.2):
        kwargs.append(f"out={out(v, args, len(schema.returns))}")
    if v.chance(v.illegal):
        _spoil(v, args, kwargs)
    if args and v.chance(0.3) and args[0] in v.tensors and hasattr(mt.Tensor, name):
        v.lines.append(f"r = {args[0]}.{name}({', '.join(args[1:] + kwargs)})")
    else:
        v.lines.append(f"r = O[{name!r}]({', '.join(args + kwargs)})")
    if v.chance(0.2):
        v.lines.append(v.pick(AFTER))
    if v.tensors and v.chance(0.05):
        follow_up = v.pick(ops.names)
        if follow_up.endswith("_") and hasattr(mt.Tensor, follow_up):
            rest = [v.by_type(a.type, a.name) for a in ops.schemas[follow_up][0][0].arguments[1:] if a.required]
            v.lines.append(f"r.{follow_up}({', '.join(rest)})")


AFTER = ["repr(r)", "copy.copy(r)", "copy.deepcopy(r)", "pickle.loads(pickle.dumps(r))", "r.sum()", "r[0]", "r + r",
         "r.clone()", "r.contiguous()", "r.view(-1)", "r.reshape(-1)", "r.t_()",
         "list(r)[:9] if len(r) < 99 else 0", "r.resize_(3, 3)", "r.mul_(r)", "r.grad_fn",
         "r._base", "r.is_contiguous()", "mt.add(r, 1, out=r)", "r.to(mt.float16)", "r.detach().requires_grad_()",
         "r.as_subclass(Override) + 1",
         "r.numpy()", "r.tolist() if r.numel() < 9999 else 0", "r.untyped_storage()._cdata", "r.permute(*range(r.ndim)[::-1]).flatten()"]


def out(v, args, n):
    """Return an expression for out=, usually a valid one."""
    match v.rng.randrange(10):
        case 0 | 1 | 2:
            one = f"T((0,), {v.dtype!r})"
        case 3 | 4:
            one = f"T({tuple(v.base)}, {v.dtype!r})"
        case 5 if v.tensors:
            one = v.pick(v.tensors)
        case 6 if v.tensors:
            one = f"{v.pick(v.tensors)}.detach()[...]"
        case 7:
            return v.anything()
        case _:
            one = v.tensor()
    return one if n == 1 else "(" + ", ".join([one] + [f"T((0,), {v.pick(['int64', v.dtype])!r})" for _ in range(n - 1)]) + ")"


def _spoil(v, args, kwargs):
    """Make the form of a call invalid."""
    match v.rng.randrange(8):
        case 0 if args:
            del args[v.rng.randrange(len(args))]
        case 1:
            args.append(v.anything())
        case 2:
            key = v.pick([k for k in KEYWORDS if k.isidentifier() and not any(w.startswith(k + "=") for w in kwargs)])
            kwargs.append(f"{key}={v.anything()}")
        case 3:
            kwargs.append(f"**{{{v.pick(KEYWORDS)!r}: {v.anything()}}}")
        case 4:
            kwargs.append(f"**{{Str({v.pick(KEYWORDS)!r}, {v.act()}): {v.anything()}}}")
        case 5 if args:
            args[v.rng.randrange(len(args))] = v.anything()
        case 6 if len(args) > 1:
            v.rng.shuffle(args)
        case 7:
            args.append(f"*{v.sequence([v.anything() for _ in range(v.pick([1, 2, 30]))])}")


def from_records(v, ops):
    """Return lines with a recorded call, usually changed in some places."""
    call, args, kwargs = v.pick(ops.records())
    data = json.loads(json.dumps([args, kwargs]))
    for _ in range(v.pick([0, 0, 1, 1, 2, 4])):
        _mutate(v, data)
    v.lines.append(f"r = R({call!r}, {data[0]!r}, {data[1]!r})")
    if v.chance(0.2):
        v.lines.append(v.pick(AFTER))


def _mutate(v, data):
    """Change one place of a recorded call."""
    places = []

    def walk(node):
        for key, item in enumerate(node) if isinstance(node, list) else list(node.items()):
            places.append((node, key))
            if isinstance(item, (list, dict)):
                walk(item)

    walk(data)
    places = [(node, key) for node, key in places if node is not data]
    if not places:
        return
    node, key = v.pick(places)
    old = node[key]
    if isinstance(old, bool):
        node[key] = not old
    elif isinstance(old, int):
        small = [old + 1, old - 1, 0, 1, -1, 2, 7, -old]
        node[key] = v.pick(small) if v.chance(0.9) or not v.huge else v.pick(EXTREME)
    elif isinstance(old, float):
        node[key] = v.pick([0.0, -1.0, 1e308, 0.5, 3])
    elif isinstance(old, str) and old in DTYPES:
        node[key] = v.pick(COMMON) if v.chance(0.7) else v.pick(DTYPES)
    elif isinstance(old, str) and isinstance(node, list):
        node[key] = v.pick(["sum", "x", ""])
    elif isinstance(old, list) and isinstance(node, list) and v.chance(0.5):
        if old and v.chance(0.5):
            del old[v.rng.randrange(len(old))]
        else:
            old.append(v.pick([0, 1, 2, -1, *old]))
    elif isinstance(old, dict) and "T" in old:
        shape = [v.pick([0, 1, 2, 3]) for _ in range(v.rng.randrange(7))]
        strides = [0] * len(shape)
        step = 1
        for i in reversed(range(len(shape))):
            strides[i], step = step, step * max(shape[i], 1)
        node[key] = v.pick([None, 1, 0.5, {"T": [shape, strides, v.pick(COMMON), 0]}, {**old, "n": 1}])
    elif isinstance(node, list):
        node[key] = v.pick([None, 0, "x", [], [1, 2]])
