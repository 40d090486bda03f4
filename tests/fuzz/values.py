"""Random expressions for the arguments of calls, as source text, by schema type."""

import metatensor as mt

from .world import FORMS

DTYPES = sorted(name for name, value in vars(mt).items() if isinstance(value, mt.dtype))
COMMON = ["float32"] * 6 + ["float64", "float16", "bfloat16", "int64", "int64", "int32", "uint8", "bool", "complex64"]
SMALL = [0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5]
EXTREME = [2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**53, 2**61, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**70),
10**30, 64,
           65, 1000]
FLOATS = ["0.5", "0.0", "-0.0", "1.0", "-1.5", "2.0", "1e-5", "1e38", "-1e308", "1e308", "5e-324", "inf", "-inf", "nan"]
WORDS = ["sum", "mean", "none", "batchmean", "same", "valid", "reflect", "replicate", "circular", "constant", "zeros",
"border",
         "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area", "tanh", "floor", "trunc", "ij", "xy",
         "prod", "amax", "amin", "fro", "nuc", "ortho", "forward", "backward", "reduced", "complete", "r", "lower", "ii->i",
         "ij,jk->ik", "...ij,...jk", "i,j->ij", "", "x", "\\ud800", "a\\x00b", "é" * 30]
KEYWORDS = ["dim", "axis", "keepdim", "keepdims", "dtype", "device", "out", "p", "eps", "size", "other", "x", "x1",
"x2", "a",
            "weight", "bias", "padding", "stride", "generator", "input", "index", "reduction", "self", "alpha", "inplace",
            "memory_format", "layout", "requires_grad", "pin_memory", "non_blocking", "é", ""]
# What a misbehaving argument may do to the tensor {t} during a call.
ACTS = ["{t}.resize_(0)", "{t}.resize_(7, 9)", "{t}.resize_(1, 1, 1, 1, 1, 1, 1, 1)", "{t}.resize_(2**20)",
"{t}.squeeze_()",
        "{t}.unsqueeze_(0)", "{t}.set_(T((2, 2)))", "setattr({t}, 'data', T((1,) * 9, 'int8'))", "{t}.t_()", "{t}.zero_()",
        "{t}.untyped_storage().resize_(0)", "{t}.detach_()", "{t}.requires_grad_()", "setattr({t}, '__class__', Sub)",
        "{t}.__dict__.clear()", "setattr({t}, 'grad', {t}.clone())", "gc.collect(0)", "mt.set_default_dtype(mt.float64)",
        "mt.set_grad_enabled(False)", "library.define('fz::late(Tensor input) -> Tensor')", "{l}.clear()", "{l}.append(None)",
        "{l}.extend([0] * 50)", "{l}.reverse()", "{t}.as_strided_((1,) * 12, (1,) * 12)"]


class Values:
    """Draws the lines of one program. Keeps the `lines` so far, and the names of `tensors` and `lists`."""

    def __init__(self, rng, device="meta", illegal=0.0):
        self.rng = rng
        self.device = device
        self.illegal = illegal
        self.lines = []
        self.tensors = []
        self.lists = []
        self.huge = device == "meta"
        self.extreme = EXTREME if self.huge else [-(2**63), 2**62, 2**63 - 1, 2**64, -(2**70), 65, 1000]
        self.rank = 0
        self.story()

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[self.rng.randrange(len(items))]

    # Tensors ------------------------------------------------------------------------------------------------

    def story(self):
        """Choose the shape and dtype that most tensors of this program are based on."""
        rank = self.pick([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 12])
        self.base = [self.pick(SMALL if rank < 6 else [0, 1, 1, 2]) for _ in range(rank)]
        if self.chance(0.6):
            self.base = [max(n, 1) for n in self.base]
        self.dtype = self.pick(COMMON) if self.chance(0.85) else self.pick(DTYPES)
        self.compatible = self.chance(0.65)
        self.forms = ["plain"] if self.chance(0.4) else list(FORMS) if self.huge else list(FORMS[:-1])

    def shape(self):
        """Return a shape related to the program's base shape, or an arbitrary one."""
        base = self.base
        if not self.compatible and self.chance(0.5):
            return [self.pick(SMALL) for _ in range(self.rng.randrange(6))]
        match self.rng.randrange(12):
            case 0:
                return base[self.rng.randrange(len(base) + 1) :]
            case 1:
                return [1 if self.chance(0.4) else n for n in base]
            case 2 if len(base) > 1:
                return [*base[:-2], base[-1], base[-2]]
            case 3 if base:
                return [*base[:-1], self.pick(SMALL)]
            case 4 if base:
                return [base[-1]]
            case 5 if base:
                return [base[-1], base[-1]]
            case 6:
                return [self.pick(SMALL), *base]
        return list(base)

    def tensor(self, name=""):
        """Return the name of a tensor, usually a new one."""
        if self.tensors and self.chance(0.15):
            return self.pick(self.tensors)
        dtype = self.dtype
        if name in ("index", "indices", "target", "offsets", "repeats", "sections") and self.chance(0.8):
            dtype = self.pick(["int64", "int64", "int32"])
        elif name in ("mask", "condition") and self.chance(0.8):
            dtype = "bool"
        elif not self.chance(0.75):
            dtype = self.pick(COMMON) if self.chance(0.7) else self.pick(DTYPES)
        shape = self.shape()
        made = f"t{len(self.tensors)}"
        if self.tensors and self.chance(0.08):
            text = f"{self.pick(self.tensors)}{self.pick(['.detach()', '[...]', '.mT', '.view(-1)', '[1:]', '.real', '.data'])}"
        else:
            device = f", {self.pick(['meta', 'cpu', 'cuda', 'disk'])!r}" if self.chance(0.01) else ""
            text = f"T({tuple(shape)}, {dtype!r}, {self.pick(self.forms)!r}{device})"
        self.lines.append(f"{made} = {text}")
        self.tensors.append(made)
        self.rank = max(self.rank, len(shape))
        return made

    def list_(self, items):
        """Return the name of a list or tuple variable, so that an object can change it during a call."""
        made = f"l{len(self.lists)}"
        self.lines.append(f"{made} = [{', '.join(items)}]")
        self.lists.append(made)
        return made

    def act(self):
        text = self.pick(ACTS)
        tensor = self.pick(self.tensors) if self.tensors else "T((2,))"
        return "lambda: " + text.format(t=tensor, l=self.pick(self.lists) if self.lists else "[]")

    # Numbers --------------------------------------------------------------------------------------------------

    def small(self):
        return str(self.pick([0, 1, 1, 2, 2, 3, -1, -2, 5]))

    def int_(self, name=""):
        if self.chance(0.06 + self.illegal / 4):
            return str(self.pick(self.extreme))
        if self.chance(0.04):
            return self.odd_int()
        if name.startswith(("dim", "axis", "start_dim", "end_dim", "source", "destination")):
            return str(self.rng.randrange(-self.rank - 1, self.rank + 1)) if self.chance(0.5) else self.pick(["0", "-1"])
        return self.small()

    def odd_int(self):
        n = self.pick([0, 1, 2, -1, 2**63])
        return self.pick([f"Int({n}, {self.act()})", f"Index({n}, {self.act()})", f"Index({n}.5)", "Index(None)", "True",
                          f"T((), 'int64').fill_({n % 9})", "T((1,), 'int64')", f"Scalar0({n}, 'int64', {self.act()})"])

    def float_(self, name=""):
        if self.chance(0.05):
            return self.pick([f"Float(0.5, {self.act()})", f"Real(0.5, {self.act()})", "Real('x')", "Scalar0('x', 1)", "T(())",
                              f"Int(1, {self.act()})", "10**400", "True"])
        return self.pick(FLOATS[:7]) if self.chance(0.75) else self.pick(FLOATS)

    def scalar(self, name=""):
        match self.rng.randrange(8):
            case 0 | 1 | 2:
                return self.int_()
            case 3 | 4 | 5:
                return self.float_()
            case 6:
                return self.pick(["1j", "2+0.5j", "complex(nan, inf)"])
        return self.pick(["True", "False"])

    def ints(self, name="", repeat=0):
        if repeat and self.chance(0.4):
            return self.int_(name)
        match self.rng.randrange(8):
            case 0:
                items = [str(n) for n in self.base]
            case 1:
                order = list(range(len(self.base)))
                self.rng.shuffle(order)
                items = [str(n) for n in order]
            case 2:
                items = [str(n) for n in self.shape()]
            case _:
                length = repeat if repeat and self.chance(0.8) else self.rng.randrange(5)
                items = [self.int_(name) for _ in range(length)]
        if self.chance(0.02):
            items = items * 20
        return self.sequence(items)

    def sequence(self, items):
        text = ", ".join(items)
        if self.chance(0.9):
            return f"[{text}]" if self.chance(0.4) or len(items) == 0 else f"({text},)"
        match self.rng.randrange(6):
            case 0:
                return self.list_(items)
            case 1:
                return f"Seq([{text}], {self.pick(['None', '0', '2**40', '1', '-1'])}, {self.act()})"
            case 2:
                return f"List([{text}])"
            case 3:
                return f"Tuple([{text}], {self.act()})"
            case 4:
                return f"mt.Size([{text}])"
        return f"(_ for _ in [{text}])"

    def str_(self, name=""):
        return repr(self.pick(WORDS)).replace("\\\\", "\\") if self.chance(0.95) else f"Str('sum', {self.act()})"

    def nested(self, depth=0):
        """Return nested lists of numbers, usually of equal lengths."""
        if depth > 3 or self.chance(0.3):
            return self.scalar() if self.chance(0.95) else self.anything()
        n = self.pick([0, 1, 2, 2, 3])
        if self.chance(0.8):
            return f"[{', '.join([self.nested(depth + 1)] * n)}]"
        return self.sequence([self.nested(depth + 1) for _ in range(n)])

    # Other values -------------------------------------------------------------------------------------------------

    def anything(self, name=""):
        match self.rng.randrange(12):
            case 0 | 1 | 2:
                return self.tensor()
            case 3:
                return self.scalar()
            case 4:
                return self.sequence([self.int_() for _ in range(self.rng.randrange(4))])
            case 5:
                return self.sequence([self.tensor() for _ in range(self.rng.randrange(4))])
            case 6:
                return self.str_()
            case 7:
                return self.odd_int()
            case 8:
                return self.nested()
        return self.pick(["None", "...", "{}", "{'a': 1}", "object()", "Thrower()", "mt.Tensor", "int", "b'ab'", "range(3)",
                          "slice(1, 2)",
                          "set()", f"mt.{self.pick(DTYPES)}", "mt.strided", "mt.channels_last", "mt.device('meta')", "'cpu'", "'meta'",
                          "mt.Generator()", "(1, 2)", "('a', None)", "NotImplemented", "type('X', (), {})", "bytearray(8)",
                          "lambda *a: None",
                          "T((2, 2)).untyped_storage()", "Liar((2,))", "mt.Tensor.__new__(Override)", "[[1, 2], [3]]", "float", "T.device"])

    def index(self):
        """Return an index for ``x[...]``."""
        parts = []
        for _ in range(self.pick([1, 1, 1, 2, 2, 3, 4, 9])):
            match self.rng.randrange(11):
                case 0 | 1 | 2:
                    parts.append(self.int_())
                case 3 | 4:
                    parts.append(f"slice({self.pick(['None', self.int_()])}, {self.pick(['None', self.int_()])}, "
                                 f"{self.pick(['None', '1', '2', self.int_()])})")
                case 5:
                    parts.append("...")
                case 6:
                    parts.append("None")
                case 7:
                    parts.append(self.tensor(self.pick(["index", "mask"])))
                case 8:
                    parts.append(self.pick(["True", "False", "[0, 1]", "[True, False]", "[[0], [1]]", "range(2)", "[]"]))
                case 9:
                    parts.append(self.nested())
                case _:
                    parts.append(self.anything() if self.chance(0.3) else self.small())
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def by_type(self, kind, name=""):
        """Return an argument of a schema type, usually a valid one."""
        if self.chance(self.illegal):
            return self.anything()
        kind = kind.replace("(a!)", "").replace("(a)", "")
        if kind.endswith("?"):
            if self.chance(0.3):
                return "None"
            kind = kind[:-1]
        base, _, rest = kind.partition("[")
        if rest:
            repeat = int(rest[:-1] or 0)
            if base == "int":
                return self.ints(name, repeat)
            if base == "Tensor":
                return self.sequence([self.tensor(name) for _ in range(self.pick([0, 1, 2, 2, 3]))])
            return self.sequence([self.float_() if base == "float" else self.pick(["True", "False"]) for _ in range(2)])
        match base:
            case "Tensor":
                return self.tensor(name)
            case "Tensor|Scalar":
                return self.tensor(name) if self.chance(0.6) else self.scalar()
            case "Scalar":
                return self.scalar()
            case "int":
                return self.int_(name)
            case "float":
                return self.float_()
            case "bool":
                return self.pick(["True", "False"])
            case "str":
                return self.str_()
            case "dtype":
                return f"mt.{self.pick(COMMON) if self.chance(0.7) else self.pick(DTYPES)}"
            case "device":
                odd = ["'meta'", "'cpu'", "0", "'cuda:1'", "'x:y'", "mt.device('disk')", "-1"]
                return "T.device" if self.chance(0.9) else self.pick(odd)
            case "layout":
                return self.pick(["mt.strided", "mt.strided", "mt.strided", "mt.sparse_coo", "mt.jagged"])
            case "memory_format":
                return f"mt.{self.pick(['contiguous_format', 'preserve_format', 'channels_last', 'channels_last_3d'])}"
            case "generator":
                return self.pick(["None", "mt.Generator()", "mt.Generator('cpu')", "(1, 2)"])
        return self.nested() if self.chance(0.4) else self.anything()
