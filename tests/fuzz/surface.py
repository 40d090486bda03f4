"""Programs for everything except ops: indexing, properties, constructors, storages, modules, modes, pickles, definitions.

Each entry is a line with placeholders: ``{t}`` is a tensor, ``{any}`` anything, ``{i}`` an int, ``{ints}`` ints, ``{key}`` an index,
``{s}`` a scalar, ``{data}`` nested lists, ``{str}`` a string, ``{dt}`` a dtype, ``{schema}`` the text of a schema, ``{name}`` the name
of an attribute, ``{act}`` a callback, and ``{op}`` a call of a random op.
"""
# ruff: noqa: E501

import re

import metatensor as mt

from .calls import AFTER, from_schema
from .values import Values

LINES = """
r = {t}[{key}]
r = {t}[{key}]
r = {t}[{key}][{key}]
{t}[{key}] = {s}
{t}[{key}] = {t}
{t}[{key}] = {any}
{t}[{key}] += {s}
del {t}[{key}]
r = {t} + {any}
r = {s} - {t}
r = {any} * {t}
r = {t} / {t}
r = {t} // {s}
r = {s} % {t}
r = {t} ** {s}
r = {s} ** {t}
r = pow({t}, {s}, {s})
r = divmod({t}, {s})
r = {t} @ {t}
r = {any} @ {t}
r = {t} & {any}; {t} | {any}; {t} ^ {any}
r = {t} << {i}; {t} >> {i}; {s} << {t}
r = -{t}; +{t}; abs({t}); ~{t}
r = {t} < {any}; {t} >= {any}
r = {t} == {any}
r = {t} != {any}
r = {any} in {t}
r = operator.iadd({t}, {any}); operator.imatmul({t}, {t})
r = operator.ipow({t}, {any}); operator.ilshift({t}, {i})
r = bool({t}), int({t}), float({t}), complex({t})
r = operator.index({t})
r = len({t}), hash({t}), repr({t}), format({t}, {str})
r = round({t}); reversed({t}); math({t})
r = list({t})
r = [*{t}]
r = dir({t})
r = getattr({t}, {name})
r = getattr({t}, {name})({any})
r = getattr({t}, {name})({any}, {any})
setattr({t}, {name}, {any})
delattr({t}, {name})
{t}.grad = {t}
{t}.grad = {any}
{t}.data = {t}
{t}.data = {any}
{t}.requires_grad = {any}
{t}.__dict__ = {any}
{t}.__class__ = {any}
{t}.extra = {t}; {t}.__dict__
{t}.real = {t}; {t}.imag = {t}
r = {t}.size({i}), {t}.stride({i}); {t}.dim()
r = {t}.size({any}); {t}.stride({any})
r = {t}.shape[{i}], {t}.shape[{key}], {t}.shape + {any}, {t}.shape * {i}
r = {t}.shape.numel(); {t}.shape == {ints}; hash({t}.shape)
r = mt.Size({any}); r.numel(); r + ({i},); r[{key}]; repr(r)
r = pickle.loads(pickle.dumps({t}.shape))
r = mt.Tensor({any})
r = mt.Tensor({ints}); r.resize_({ints})
r = mt.Tensor({any}, {any}); r.sum()
r = mt.Tensor(device={any})
r = mt.Tensor.__new__({any}, {any})
r = mt.Tensor.__new__(Override, {any}) + 1
r = Sub({ints}); r + {t}
r = Override({ints}); r + {t}
r = Liar({ints}); r + {t}; r[{key}]; r.add_({t}); mt.add({t}, 1, out=r); mt.cat([r, {t}]); list(r); r.chunk(2); r == 1
r = mt.tensor({data}, device=T.device)
r = mt.tensor({data}, dtype=mt.{dt}, device=T.device, requires_grad={any})
r = mt.tensor({any}, device=T.device)
r = mt.as_tensor({any}, device=T.device)
r = mt.asarray({any}, dtype=mt.{dt}, device=T.device, copy={any})
r = host.encode_numbers({data}); host.decode_numbers(r[2], r[1], r[0])
r = host.encode_numbers({any}, mt.{dt})
r = host.decode_numbers(bytes({i} % 99), mt.{dt}, {ints})
r = host.decode_numbers({any}, {any}, {any})
r = mt.Tensor._make_subclass({any}, {any}, {any})
r = mt.Tensor._make_subclass(Sub, {t})
r = {t}.as_subclass({any})
r = {t}.as_subclass(mt.nn.Parameter)
r = {t}.new_empty({ints}); {t}.new_tensor({data}); {t}.new_full({ints}, {s})
r = copy.copy({t}); copy.deepcopy({t})
r = copy.deepcopy([{t}, {t}])
r = pickle.loads(pickle.dumps({t}, {i} % 6))
r = pickle.loads(pickle.dumps([{t}, {t}.untyped_storage(), {t}.dtype, {t}.device, {t}.shape, {t}.layout]))
r = rebuild_tensor({any}, {any}, {any}, {any}, {any}, {any}, {any}, {any}, {any}, {any})
r = rebuild_tensor(mt.Tensor, {t}.untyped_storage(), mt.{dt}, {ints}, {ints}, {i}, False, {any}, False, {})
r = {t}.__reduce_ex__({any})
r = {t}.__deepcopy__({any})
r = {t}.__array__({any}); memoryview({t})
r = {t}.__dlpack__(stream={any}); {t}.__dlpack_device__()
r = mt.from_dlpack({any})
r = mt.from_numpy({any})
r = {t}.numpy(force={any})
r = {t}.apply_({any}); {t}.map_({t}, {any})
r = {t}.type({any}); {t}.type()
r = {t}.to({any}); {t}.to({any}, {any})
r = {t}.to(mt.{dt}, copy={any}, memory_format=mt.channels_last)
r = {t}.untyped_storage().resize_({any}); {t} + 1; {t}[{key}]; repr({t}); copy.deepcopy({t}); {t}.clone()
{t}.untyped_storage().resize_({i}); {t}.resize_({ints}); {t}.contiguous(); {t}.view(-1)
r = {t}.untyped_storage(); r.nbytes(); len(r); r == {any}; hash(r); repr(r); r.data_ptr(); copy.deepcopy(r); r.{name_}
r = storage.make_storage({any}, {any}, {any})
r = storage.make_storage('meta', {i}); r.resize_({i}); pickle.loads(pickle.dumps(r))
r = storage.make_fake_storage({any}, {any})
r = storage.make_fake_storage('cpu', 64); storage_views.tensor_from_storage(r, mt.{dt}, {ints}, {ints}, {i}) + 1
r = storage.rebuild_storage({any}, {any}, {any}); storage.copy_storage({any}); storage.storage_bytes({any})
r = storage.set_data({t}.untyped_storage(), {any}); {t} + 1
r = storage_views.tensor_from_storage({t}.untyped_storage(), mt.{dt}, {ints}, {ints}, {i}); r + 1; repr(r)
r = storage_views.tensor_from_storage({any}, {any}, {any}, {any}, {any})
r = {t}.set_({t}); {t}.set_({t}.untyped_storage(), {i}, {ints}, {ints}); {t} + 1
r = {t}.as_strided({ints}, {ints}, {i}); r + 1; r.zero_(); r.as_strided({ints}, {ints})
r = layout.contiguous_strides({any}); layout.compute_view_strides({any}, {any}, {any})
r = layout.compute_view_strides({ints}, {ints}, {ints}); layout.is_non_overlapping_and_dense({ints}, {ints})
r = layout.broadcast_shapes({any}, {any}); mt.broadcast_shapes({ints}, {ints}, {any})
r = layout.is_non_overlapping_and_dense({any}, {any})
r = mt.device({any}); repr(r), hash(r), r.index, r == {any}; pickle.loads(pickle.dumps(r))
r = mt.device({str}, {any})
with mt.device({any}): mt.empty({ints})
r = mt.device('meta')(lambda: mt.empty({ints}))()
mt.set_default_device({any}); mt.empty({ints})
mt.set_default_dtype({any}); mt.tensor({data}, device=T.device)
r = mt.promote_types({any}, {any}); mt.can_cast({any}, {any})
r = mt.promote_types(mt.{dt}, mt.{dt}); mt.can_cast(mt.{dt}, mt.{dt}); mt.{dt}.to_complex(), mt.{dt}.to_real(); pickle.dumps(mt.{dt})
r = mt.result_type({any}, {any}); dtype.dtype_by_name({any})
r = mt.dtype({any}); mt.layout({any}); mt.memory_format({any}); formats._by_name({any})
r = mt.Spec({any}, {any}, strides={any}, device={any}); repr(r); r == {any}
r = mt.Generator({any})
r = mt.Generator(); r.manual_seed({any}); r.set_state(r.get_state()); r.set_state({any}); r.clone_state(); r.initial_seed(); copy.deepcopy(r)
r = random._rebuild({any}, {any}, {any}); mt.rand(2, generator=r, device=T.device)
mt.manual_seed({any}); mt.rand({ints}, device=T.device); mt.set_rng_state({any}); mt.get_rng_state()
r = schema.parse({schema})
r = schema.parse({any})
r = library.define({schema}); r({any}); r({t}, {any}, {any})
r = op.define_op({schema}, {any}, {any}, {any}); r({t})
r = op.define_op({schema}, lambda *a, **k: {any}, {flags}); r({t}); r({t}, {any}, out={t}); r({any}, {any})
r = op.define_op({schema}, lambda *a, **k: (mt.Spec({ints}, mt.{dt}), {any}), {flags}); r({t}); r({t}, {i})
r = library.op({any})({any}); library.meta({any})({any}); library.kernel({any}, {any})({any}); library.decomposition({any})({any})
r = library.op('fz::py')(lambda x: x); r({t})
r = library.infer_schema({any}, {any}); library.get_op({any}); library.flops({any})({any})
r = op.namespace({any}); op.op_by_name({any}); execute.forget_kernels({any}); execute.mark_output({any}); op.missing_slots()
r = {anyop}; r.{name_}; repr(r); r.__doc__; r.__signature__; pickle.loads(pickle.dumps(r)); copy.deepcopy(r); weakref.ref(r); r.schemas
r = {anyop}.__get__({any}, {any}); {anyop}()
r = {anyop}; r.{name_} = {any}; r.__dict__.clear()
r = mt.Tensor.add; r.__get__({any}, {any}); r({any}, {any}); r.__signature__; pickle.loads(pickle.dumps(r)); repr(r)
r = type({anyop})(); type({anyop}).__new__(type({anyop})); type(mt.Tensor.add)(); object.__new__(type({t}.untyped_storage()))
r = mt.Tensor.T.__get__({any}, {any}); mt.Tensor.shape.__get__({any}); mt.Tensor.__add__({any}, {any}); mt.Tensor.__getitem__({any}, {any})
r = mt.Tensor.__init__({t}, {any}); mt.Tensor.__setitem__({any}, {any}, {any}); mt.Tensor.__len__({any}); mt.Tensor.size({any}, {any})
r = mt.Tensor.__torch_function__({any}, {any}, {any}, {any})
r = mt.Tensor.__torch_function__({anyop}, (mt.Tensor,), ({t}, {any}))
r = thread._set_grad_enabled({any}); thread._set_inference(False)
with mt.no_grad(): {op}
with mt.inference_mode(): {op}
with mt.inference_mode({any}): r = {t} + 1; r.add_(1)
with mt.set_grad_enabled({any}): {op}
with mt.enable_grad(): {op}; {t}.requires_grad_().add_(1)
with thread.DisableTorchFunctionSubclass(): {op}; Liar({ints}) + {t}
with Meddler({kind}): {op}
with Meddler({kind}, {act}): {op}
with Meddler({kind}), Meddler({kind}, {act}): {op}
with Meddler({kind}): r = {t}[{key}]; {t}[{key}] = {s}; {t} + {t}; {t}.relu_(); list({t}); {t}.max(0)
with Meddler({kind}) as m, m: {op}
m = Meddler('pass'); m.__enter__(); {op}; m.__exit__(None, None, None); m.__exit__(None, None, None)
m = Meddler('pass'); m.dispatch({any}, {any}, {any}); m.__enter__({any})
r = modes.DispatchMode({any}); modes.Mode().__enter__(); modes.current_modes()
was = modes._disable_modes(); {op}; modes._restore_modes({any}); modes._restore_modes(was)
with memory.MemoryTracker() as r: {op}; r.current, r.peak, r.count, r.reset_peak()
with memory.MemoryTracker() as r, memory.MemoryTracker(): {op}; {t}.untyped_storage().resize_({i})
m = memory.MemoryTracker(); m.__exit__(); m.__enter__(); m.__enter__(); m.__exit__()
r = {t}.retain_grad(); {t}.backward({any}); {t}.requires_grad_({any}); {t}.grad_fn; {t}.is_leaf; {t}.register_hook({any})
r = ({t}.float().requires_grad_() * 2).grad_fn; r.next_functions; r.name(); r({any})
r = Net(); r({t}); r.{name_}; r({any}); r({t}, {any}); r(x={t}); repr(r)
r = Net(); setattr(r, {name}, {any}); getattr(r, {name}); r({t}); delattr(r, {name}); r.state_dict(); copy.deepcopy(r)
r = Net(); setattr(r, {member}, {any}); getattr(r, {name}); r({t}); r.weight; r.foo = {t}; r.state_dict(); list(r.parameters()); r.zero_grad()
r = Net(); r.__dict__[{member}] = {any}; getattr(r, {name}); r.weight = {any}; r.foo = Net(); del r.weight; r({t})
r = Net(); r.__dict__ = {any}; r.weight; r({t})
r = Net(); r.__dict__.clear(); r({t}); r.weight = {t}; r.foo
r = Net(); r.__dict__ = {'forward': {any}, '_modules': {any}, '_parameters': {any}}; r({any}); r.weight = nn.Parameter({t}); r.x = Net()
r = Net(); r.register_parameter({any}, {any}); r.register_buffer({any}, {any}); r.add_module({any}, {any})
r = Net(); r.register_parameter({str}, nn.Parameter({t})); r.register_buffer({str}, {t}, {any}); r.add_module({str}, Net())
r = Net(); r.register_forward_hook({any}); r({t}); r.register_forward_pre_hook({any}); r({t})
r = Net(); r.register_forward_hook(lambda m, a, o: {any}); r.register_forward_pre_hook(lambda m, a: {any}); r({t})
r = Net(); r.forward = {any}; r({t}); r(*{any}); r(**{any})
r = Net(); r.weight = {any}; r.weight = {t}; r.running = {any}; r.inner = {any}; r({t})
r = Net(); r.load_state_dict({any}); r.to({any}); r.half(); r.apply({any}); r.get_parameter({any}); r.get_submodule({str})
r = pickle.loads(pickle.dumps(nn.Linear(2, 3, device=T.device))); r({t}); copy.copy(r).weight = {any}
r = nn.Module({any}); nn.Module.__new__({any}); nn.Module.__init__({any}); nn.Module.__call__({any}); nn.Module.__getattr__({any}, {any})
r = nn.Module.__new__(Net); getattr(r, {name}); r({t}); r.weight = {any}; r.x = nn.Parameter({t}); repr(r); del r.x
r = nn.Module.__setattr__({any}, {any}, {any}); nn.Module.__delattr__({any}, {any})
r = Net(); getattr(r, Str('weight', {act})); setattr(r, Str('weight', {act}), {t}); delattr(r, Str('inner'))
r = Net(); setattr(r, Str({str}, lambda: r._parameters.clear()), {t}); r({t}); r._buffers[Str('running', lambda: r._buffers.clear())] = {t}; r.running; r({t})
r = nn.Parameter({any}); nn.Parameter({any}, {any}); nn.Parameter(requires_grad={any}); nn.Parameter({t}, requires_grad={any})
r = nn.Parameter({t}); copy.deepcopy(r); pickle.loads(pickle.dumps(r)); r + 1; r.data = {t}; repr(r); r.foo = 1; r.__dict__
r = nn._parameter.fill({any}, {any}, {any}, {any}); nn._parameter.without_grad({any}, {any}); nn._parameter.fans({any})
r = nn._parameter.fill(mt.Tensor.uniform_, {t}, {s}, {s}); nn.init.kaiming_uniform_({t}); nn.init.orthogonal_({t})
r = nn.Linear({any}, {any}, device=T.device); nn.Conv2d({i}, {i}, {any}, device=T.device)
r = nn.Linear({i}, {i}, device=T.device); r({t})
r = nn.Conv2d(2, 4, {any}, {any}, {any}, device=T.device); r({t})
r = nn.LSTM({i}, {i}, device=T.device); r({t})
r = nn.Embedding({i}, {i}, device=T.device); r({t})
r = nn.BatchNorm2d({i}, device=T.device); r({t})
r = nn.MultiheadAttention({i}, {i}, device=T.device); r({t}, {t}, {t})
r = nn.Sequential({any}, {any}); nn.ModuleList({any}); nn.ModuleDict({any}); nn.ParameterList({any})
r = mt.testing.check_op({anyop}, {any}); mt.load({any})
in_threads(lambda: ({op_}), lambda: ({op_}))
in_threads(lambda: ({t}.resize_({ints}), {t} + {t}), lambda: ({t}[{key}], {t}.squeeze_()), lambda: {t}.unsqueeze_(0))
in_threads(lambda: {t}.resize_({ints}), lambda: mt.cat([{t}, {t}]), lambda: repr({t}), lambda: copy.deepcopy({t}))
in_threads(lambda: library.define({schema}), lambda: mt.relu({t}), lambda: op.namespace(''))
in_threads(lambda: Meddler('pass').__enter__(), lambda: {t} + 1)
l = [{t}, {t}]; r = mt.cat(Seq(l, 2, l.clear)); mt.stack(l)
l = [Index(1, lambda: l.clear()), 2, 3]; r = mt.empty(l, device=T.device); {t}.view(l); {t}[l]; mt.tensor(l, device=T.device)
l = [Int(1, lambda: l.clear()), Float(2.5, lambda: l.clear()), 3]; r = mt.tensor(l, device=T.device); {t}[l]; {t}.permute(l); {t}.sum(l)
l = [[1, 2], Seq([1, 2], 2, lambda: l.clear()), [3, 4]]; r = mt.tensor(l, device=T.device); mt.tensor(l, dtype=mt.int8, device=T.device)
l = [1, Index(1, lambda: l.extend([1] * 1000)), 3]; r = mt.tensor(l, device=T.device); {t}.expand(l); {t}.reshape(l); mt.zeros(l)
l = [0.5, Float(0.5, lambda: l.clear()), Int(2, lambda: l.clear())]; r = nn.functional.interpolate({t}, scale_factor=l); mt.histogramdd({t}, 3, range=l)
""".strip().splitlines()

_GAP = re.compile(r"\{(\w+)\}")
TYPES = ["Tensor", "Tensor?", "Tensor(a)", "Tensor(a!)", "Tensor[]", "Scalar", "int", "int?", "int[]", "int[2]", "int[3]?", "float", "bool", "str",
         "dtype?", "device?", "any", "Tensor|Scalar", "int[99999999999]", "in", "Tensor[2]", "bool[]", "float[]", "generator?", "memory_format?"]
DEFAULTS = ["", "", "", "=1", "=None", "='x'", "=[1, 2]", "=(", "=0.5", "=True", "=__import__('os')", "=-1", "=" + "(" * 300, "=1e999", "={}"]
MEMBERS = ["_parameters", "_buffers", "_modules", "training", "_forward_hooks", "_forward_pre_hooks", "_non_persistent_buffers_set",
           "_state_dict_hooks", "forward", "__class__", "__dict__"]


def schema(v):
    """Return the text of a schema with one of few names, or an invalid variant of it."""
    name = f"fz::{v.pick('abcdefghij')}{v.pick(['', '_', '.o', '.p'])}" if v.chance(0.9) else v.pick(["add", "fz::", "é::é", "x.y.z", ""])
    parts = []
    for i in range(v.pick([0, 1, 1, 2, 2, 3, 4, 30])):
        if v.chance(0.1):
            parts.append("*")
        parts.append(f"{v.pick(TYPES)} {v.pick(['input', 'other', 'out', 'dim', 'é', 'a', 'self', '1'])}{i or ''}{v.pick(DEFAULTS) if i else ''}")
    text = f"{name}({', '.join(parts)}) -> {v.pick(['Tensor', 'Tensor', '(Tensor a, Tensor b)', 'Tensor[]', '()', 'int', 'any', '(Tensor, Tensor)', ''])}"
    if v.chance(0.15):
        at = v.rng.randrange(len(text) + 1)
        text = text[:at] + v.pick(["(", ")", ",", "\n", "\x00", "->", "*", " ", "["]) + text[at + v.rng.randrange(3) :]
    return repr(text)


def attribute(v):
    """Return the name of an attribute of a tensor."""
    names = attribute.names = attribute.names or sorted(n for n in vars(mt.Tensor) if n not in ("__init_subclass__",))
    return v.pick(names)


attribute.names = None


def inner_call(v, ops):
    """Return a call of an op as an expression. Lines that it needs are added to the program."""
    inner = Values(v.rng, v.device, v.illegal)
    inner.huge = False
    inner.forms = [f for f in inner.forms if f != "huge"]
    inner.tensors, inner.lists = [*v.tensors], [*v.lists]
    from_schema(inner, ops)
    call = next(i for i, line in enumerate(inner.lines) if line.startswith("r = "))
    v.lines += inner.lines[:call]
    v.tensors, v.lists = inner.tensors, inner.lists
    return inner.lines[call][4:]


def from_surface(v, ops):
    """Return lines made from one of the entries above."""
    template = v.pick(LINES)
    if "list(" in template or "*{t}" in template or "in_threads" in template or " in {t}" in template:
        v.huge = False
        v.forms = [f for f in v.forms if f != "huge"]

    def fill(match):
        match match[1]:
            case "t":
                return v.tensor(v.pick(["", "", "index", "mask"]))
            case "any":
                return v.anything()
            case "i":
                return v.int_()
            case "ints":
                return v.ints()
            case "key":
                return v.index()
            case "s":
                return v.scalar()
            case "data":
                return v.nested()
            case "str":
                return v.str_()
            case "dt":
                return v.by_type("dtype")[3:]
            case "schema":
                return schema(v)
            case "name":
                return repr(attribute(v)) if v.chance(0.9) else v.str_()
            case "name_":
                return attribute(v)
            case "member":
                return repr(v.pick(MEMBERS))
            case "act":
                return v.act()
            case "kind":
                return repr(v.pick(["pass", "pass", "raise", "args", "none", "twice", "leave", "clone", "less"]))
            case "flags":
                return str(v.rng.randrange(1 << 29) & v.rng.randrange(1 << 16))
            case "anyop":
                return f"O[{v.pick(ops.names)!r}]"
            case "op" | "op_":
                return inner_call(v, ops)
        return match[0]

    start = len(v.lines)
    text = _GAP.sub(fill, template)
    if text.startswith(("with ", "in_threads", "l = ", "m = ", "was = ")):
        v.lines.append(text)
    else:
        v.lines += text.split("; ")
    if len(v.lines) == start + 1 and v.chance(0.3):
        v.lines.append(v.pick(AFTER))
