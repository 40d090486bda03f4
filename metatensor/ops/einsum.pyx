"""einsum. It parses an equation into a plan, and runs the plan as sums, permutations and batched matrix products."""
from metatensor._core.op cimport COMPOSITE, FUNCTION_ONLY, Call, arg, call, define, tensors_arg
from metatensor._core.tensor cimport Tensor, shape_str
from metatensor._core.types cimport MAX_ARGS, dim_t
from metatensor.ops.contraction cimport permuted

cdef enum:
    MAX_PLANS = 512     # cached plans


cdef object raise_einsum(str message):
    raise RuntimeError(f"einsum(): {message}")


# Parsing the equation -----------------------------------------------------------

# The dimensions of a plan are those of the result in order, then the summed dimensions
# in the order of their labels. For each operand and each dimension of the plan,
# the plan holds a tuple of operand dimensions. It is () if the operand does not have the dimension.

cdef dict _plans = {}


cdef list read_subscripts(str text, str what):
    """Return the labels of one operand: letters, and "." for the ellipsis."""
    cdef list labels = []
    cdef int i = 0, n = len(text)
    while i < n:
        ch = text[i]
        if ch == ".":
            if text[i:i + 3] != "..." or "." in labels:
                raise_einsum(f"each operand may have one ellipsis ('...') and no other dots, got {text!r} for {what}")
            labels.append(".")
            i += 2
        elif "a" <= ch <= "z" or "A" <= ch <= "Z":
            labels.append(ch)
        elif ch != " ":
            raise_einsum(f"subscripts must be letters, got {ch!r} in {what}")
        i += 1
    return labels


cdef tuple make_plan(str equation, tuple ndims):
    """Return the number of result dimensions, the number of all dimensions, and the tuples for each operand."""
    cdef str left, arrow, right
    cdef int ellipsis = 0, k, position, extra
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(ndims):
        raise_einsum(f"{equation!r} names {len(parts)} operands, but {len(ndims)} were given")
    inputs = [read_subscripts(part, f"operand {k}") for k, part in enumerate(parts)]
    counts = {}
    for k, labels in enumerate(inputs):
        named = len(labels) - ("." in labels)
        if "." in labels:
            extra = ndims[k] - named
            ellipsis = max(ellipsis, extra)
        if ndims[k] < named or ("." not in labels and ndims[k] != named):
            raise_einsum(f"operand {k} has {ndims[k]} dimensions, but {parts[k].strip()!r} names {named}")
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
    if arrow:
        output = read_subscripts(right, "the output")
        for label in output:
            if label != "." and label not in counts:
                raise_einsum(f"the output subscript {label!r} is in no operand of {equation!r}")
            if output.count(label) > 1:
                raise_einsum(f"the output subscript {label!r} appears more than once in {equation!r}")
    else:
        output = ["."] if "." in counts else []
        output += sorted([label for label in counts if label != "." and counts[label] == 1])
    summed = sorted([label for label in counts if label not in output and label != "."])
    place = {}
    position = 0
    for label in output:
        place[label] = position
        position += ellipsis if label == "." else 1
    n_out = position
    if "." in counts and "." not in output:
        place["."] = position
        position += ellipsis
    for label in summed:
        place[label] = position
        position += 1
    operands = []
    for k, labels in enumerate(inputs):
        axes = [()] * position
        d = 0
        for label in labels:
            if label == ".":
                extra = ndims[k] - len(labels) + 1
                for e in range(extra):
                    axes[place["."] + ellipsis - extra + e] = (d,)
                    d += 1
            else:
                axes[place[label]] += (d,)
                d += 1
        operands.append(axes)
    return n_out, position, operands


cdef tuple plan_for(str equation, tuple ndims):
    key = (equation, ndims)
    plan = _plans.get(key)
    if plan is None:
        plan = make_plan(equation, ndims)
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


cdef str label_of(object number):
    if not isinstance(number, int) or not 0 <= number < 52:
        raise_einsum(f"subscripts in a list must be integers from 0 to 51, or ..., got {number!r}")
    return chr(ord("A") + number) if number < 26 else chr(ord("a") + number - 26)


cdef tuple from_sublists(list given):
    """Convert arguments such as (a, [0, 1], b, [1, 2], [0, 2]) to an equation and a list of operands."""
    cdef list operands = given[0:len(given) - len(given) % 2:2]
    cdef list texts = []
    for subscripts in given[1::2] + ([given[len(given) - 1]] if len(given) % 2 else []):
        if not isinstance(subscripts, (list, tuple)):
            raise TypeError(f"einsum(): expected a list of subscripts, got {type(subscripts).__name__}")
        texts.append("".join(["..." if s is Ellipsis else label_of(s) for s in subscripts]))
    equation = ",".join(texts[:len(operands)])
    if len(given) % 2:
        equation += "->" + texts[len(operands)]
    return equation, operands


# Computing --------------------------------------------------------------------

cdef Tensor to_plan(Tensor t, list axes, int k):
    """Return an operand with all dimensions of the plan. Dimensions that it does not have are added with size 1."""
    cdef list order = [], kept = list(range(t.ndim))
    for group in axes:
        if len(group) > 1:
            # A repeated subscript takes the diagonal, which becomes the last dimension.
            for d in group[1:]:
                first, second = kept.index(group[0]), kept.index(d)
                if t.sizes[first] != t.sizes[second]:
                    raise_einsum(f"a repeated subscript of operand {k} names dimensions of different sizes, "
                                 f"{t.sizes[first]} and {t.sizes[second]}; the operand has shape {shape_str(t)}")
                t = call("diagonal", (t, 0, first, second))
                kept = [a for a in kept if a != group[0] and a != d] + [group[0]]
    # Append missing dimensions before permuting: PyTorch does so, and the strides of the result depend on it.
    for group in axes:
        if group:
            order.append(kept.index(group[0]))
        else:
            order.append(t.ndim)
            t = call("unsqueeze", (t, -1))
    return permuted(t, order)


cdef Tensor contract(Tensor a, Tensor b, set sum_dims):
    """Multiply two operands in plan order by bmm and sum over `sum_dims`, which are kept with size 1."""
    cdef list both = [], only_a = [], only_b = []
    cdef list shape, back
    cdef int i
    for i in range(a.ndim):
        if i in sum_dims:
            continue
        if a.sizes[i] != 1 and b.sizes[i] != 1:
            both.append(i)
        elif a.sizes[i] != 1:
            only_a.append(i)
        else:
            only_b.append(i)
    if only_a and only_b and only_b[len(only_b) - 1] < only_a[0]:
        # If the operand with the earlier dimensions comes first, the result needs no permutation.
        a, b = b, a
        only_a, only_b = only_b, only_a
    summed = sorted(sum_dims)
    n_both, n_a, n_b, n_sum = 1, 1, 1, 1
    for i in both:
        n_both *= a.sizes[i]
    for i in only_a:
        n_a *= a.sizes[i]
    for i in only_b:
        n_b *= b.sizes[i]
    for i in summed:
        n_sum *= a.sizes[i]
    shape = [a.sizes[<int>i] for i in both] + [a.sizes[<int>i] for i in only_a] + [1] * len(summed) \
        + [b.sizes[<int>i] for i in only_b]
    left = call("reshape", (permuted(a, both + only_a + summed + only_b), (n_both, n_a, n_sum)))
    right = call("reshape", (permuted(b, both + summed + only_b + only_a), (n_both, n_sum, n_b)))
    back = [0] * a.ndim
    for i, d in enumerate(both + only_a + summed + only_b):
        back[d] = i
    return permuted(call("reshape", (call("bmm", (left, right)), shape)), back)


cdef Tensor einsum_of(str equation, list operands):
    cdef Tensor t, a, b
    cdef int n_out, n_all, d, k
    cdef dim_t size
    n_out, n_all, plan = plan_for(equation, tuple([(<Tensor>t).ndim for t in operands]))
    items = [to_plan(<Tensor>operands[k], plan[k], k) for k in range(len(operands))]
    remaining = [0] * n_all     # for each dimension, the number of operands with it that are not yet multiplied
    for d in range(n_all):
        size = 1
        for t in items:
            if t.sizes[d] == 1:
                continue
            if size != 1 and size != t.sizes[d]:
                shapes = ", ".join([shape_str(t) for t in operands])
                raise_einsum(f"sizes {size} and {t.sizes[d]} of one subscript of {equation!r} do not broadcast; the "
                             f"operands have shapes {shapes}")
            size = t.sizes[d]
            remaining[d] += 1
    if len(items) == 1:
        return call("sum", (items[0], list(range(n_out, n_all)))) if n_all > n_out else items[0]
    a = items[0]
    for k in range(1, len(items)):
        b = items[k]
        sum_a, sum_b, sum_both = [], [], set()
        for d in range(n_out, n_all):
            if a.sizes[d] != 1 and b.sizes[d] != 1:
                remaining[d] -= 1
                if remaining[d] == 1:
                    sum_both.add(d)
                    remaining[d] = 0
            elif remaining[d] == 1:
                if a.sizes[d] != 1:
                    sum_a.append(d)
                    remaining[d] = 0
                elif b.sizes[d] != 1:
                    sum_b.append(d)
                    remaining[d] = 0
        # A sum of integers has dtype int64. `mul` promotes the other factor to it, but bmm needs equal dtypes.
        if sum_a:
            a = call("sum", (a, sum_a, True), {"dtype": a.dtype} if sum_both else {})
        if sum_b:
            b = call("sum", (b, sum_b, True), {"dtype": b.dtype} if sum_both else {})
        a = contract(a, b, sum_both) if sum_both else call("mul", (a, b))
    if n_all > n_out:
        a = call("reshape", (a, [a.sizes[d] for d in range(n_out)]))
    return a


cdef object checked_einsum(object equation, list operands):
    if not operands:
        raise_einsum("at least one operand is needed")
    for t in operands:
        if not isinstance(t, Tensor):
            raise TypeError(f"einsum(): the operands must be Tensors, got {type(t).__name__}")
    return einsum_of(equation, operands)


cdef list given_from(Call* c, int slot):
    """Return the arguments from a slot on, up to the first that was not given."""
    cdef list given = []
    while slot < MAX_ARGS and arg(c, slot) is not None:
        given.append(arg(c, slot))
        slot += 1
    return given


cdef object einsum_body(Call* c):
    """Arguments: equation, operands."""
    return checked_einsum(arg(c, 0), tensors_arg(c, 1))


cdef object several_body(Call* c):
    """Arguments: equation, operand1, operand2, ..."""
    return checked_einsum(arg(c, 0), given_from(c, 1))


cdef object sublists_body(Call* c):
    """Arguments: operand, its subscripts as a list, ..., and optionally the subscripts of the result."""
    equation, operands = from_sublists(given_from(c, 0))
    return checked_einsum(equation, operands)


cdef str slots(str type, str name, int n):
    return ", ".join([f"{type} {name}1"] + [f"{type}? {name}{i}=None" for i in range(2, n + 1)])


define("einsum(str equation, Tensor[] operands) -> Tensor", einsum_body, COMPOSITE | FUNCTION_ONLY,
       "Sum of products of operands by an equation such as 'bij,bjk->bik'. The sum is over the subscripts that are "
       "not in the output. '...' stands for any further dimensions, which broadcast. Without '->', the output has the "
       "dimensions of '...', then the subscripts that appear once, in alphabetical order. The subscripts may also be "
       "lists of integers: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.")
define(f"einsum.several(str equation, {slots('Tensor', 'operand', MAX_ARGS - 1)}) -> Tensor", several_body,
       COMPOSITE | FUNCTION_ONLY)
define(f"einsum.sublists(Tensor operand, {slots('any', 'sublist', MAX_ARGS - 1)}) -> Tensor", sublists_body,
       COMPOSITE | FUNCTION_ONLY)
