"""Malicious pickles: attempts to call, to import, to exhaust memory or time, and to confuse. None may have an effect.

`CASES` are tuples (name, pickle, words that the reason must contain; of words separated by | one is enough). They are based on
published attacks on pickle: Slaviero's "Sour Pickles" (2011), the rules and test cases of the scanners fickling, picklescan
and modelscan, reports of ways around these, and the descriptions of opcodes in CPython's ``pickletools``. All pickles were
written for this collection.
"""

# ruff: noqa: E501

import struct

__all__ = ["ARCHIVE_PREFIX", "CANARY", "CASES", "legacy", "zipped"]

CANARY = "/tmp/metatensor-hostile-canary"
ARCHIVE_PREFIX = "archive/"
P2, P4, P5 = b"\x80\x02", b"\x80\x04", b"\x80\x05"
TOUCH = f"touch {CANARY}"
CODE = f"open({CANARY!r}, 'w').close()"


def text(value):
    """Return BINUNICODE."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def name(module, attribute):
    """Return GLOBAL."""
    return f"c{module}\n{attribute}\n".encode()


def stack_name(module, attribute):
    """Return STACK_GLOBAL."""
    return text(module) + text(attribute) + b"\x93"


def integer(value):
    """Return BININT."""
    return b"J" + struct.pack("<i", value)


def long4(raw, length=None):
    """Return LONG4."""
    return b"\x8b" + struct.pack("<i", len(raw) if length is None else length) + raw


def call(module, attribute, *arguments):
    """Return REDUCE of a global."""
    return P2 + name(module, attribute) + b"(" + b"".join(arguments) + b"tR."


def storage(key="0", numel=4, kind=("torch", "FloatStorage"), location="cpu", first="storage"):
    """Return a persistent id."""
    size = numel if isinstance(numel, bytes) else (integer(numel) if -(2**31) <= numel < 2**31 else long4(numel.to_bytes(17, "little", signed=True)))
    return b"(" + text(first) + name(*kind) + text(key) + text(location) + size + b"tQ"


def ints(*values):
    """Return a tuple of integers of any size."""
    return b"(" + b"".join(integer(v) if -(2**31) <= v < 2**31 else long4(v.to_bytes(17, "little", signed=True)) for v in values) + b"t"


def arguments(storage=None, offset=0, size=(4,), stride=(1,), grad=b"\x89", hooks=name("collections", "OrderedDict") + b")R", extra=b""):
    """Return a tuple of arguments for a function that rebuilds tensors."""
    storage = storage if storage is not None else globals()["storage"]()
    size = size if isinstance(size, bytes) else ints(*size)
    return b"(" + storage + ints(offset)[1:-1] + size + ints(*stride) + grad + hooks + extra + b"t"


def tensor(*args, rebuild="_rebuild_tensor_v2", **options):
    """Return REDUCE of a function that rebuilds tensors, without PROTO and STOP."""
    return name("torch._utils", rebuild) + arguments(*args, **options) + b"R"


# Comparing a NumPy array in place of another value gives an array.
ARRAY = (name("numpy.core.numeric", "_frombuffer") + b"(C\x10" + bytes(16) + name("numpy", "dtype") + b"(" + text("f8") + b"tR"
         + ints(2) + text("C") + b"tR")  # fmt: skip

# Harmful functions, by an argument that would reveal the call.
CALLABLES = [
    *((module, "system", text(TOUCH)) for module in ("os", "posix", "nt", "os.path.os")),
    *((module, attribute, text(CODE)) for module in ("builtins", "__builtin__") for attribute in ("eval", "exec", "compile", "__import__")),
    ("builtins", "execfile", text(CANARY)), ("builtins", "open", text(CANARY) + text("w")), ("io", "open", text(CANARY) + text("w")),
    ("_io", "FileIO", text(CANARY) + text("w")), ("codecs", "open", text(CANARY) + text("w")), ("pathlib", "Path", text(CANARY)),
    ("subprocess", "Popen", text(TOUCH)), ("subprocess", "call", text(TOUCH)), ("subprocess", "check_output", text(TOUCH)),
    ("subprocess", "getoutput", text(TOUCH)), ("commands", "getoutput", text(TOUCH)), ("pty", "spawn", text("/bin/true")),
    ("os", "popen", text(TOUCH)), ("os", "execl", text("/bin/true")), ("os", "fork", b""), ("os", "kill", ints(0, 9)[1:-1]),
    ("os", "remove", text(CANARY)), ("os", "putenv", text("A") + text("B")), ("shutil", "rmtree", text(CANARY)),
    ("sys", "exit", b""), ("sys", "setrecursionlimit", integer(10)), ("sys", "settrace", b"N"), ("atexit", "register", b"N"),
    ("runpy", "run_path", text(CANARY)), ("runpy", "_run_code", text(CODE) + b"}"), ("importlib", "import_module", text("antigravity")),
    ("importlib.machinery", "SourceFileLoader", text("a") + text(CANARY)), ("imp", "load_source", text("a") + text(CANARY)),
    ("pkgutil", "resolve_name", text("os:system")), ("pydoc", "locate", text("antigravity")), ("pydoc", "pipepager", text("x") + text(TOUCH)),
    ("code", "InteractiveInterpreter", b""), ("timeit", "timeit", text(CODE)), ("cProfile", "run", text(CODE)), ("profile", "run", text(CODE)),
    ("trace", "Trace", b""), ("bdb", "Bdb", b""), ("pdb", "run", text(CODE)), ("doctest", "debug_script", text(CODE)),
    ("webbrowser", "open", text("http://127.0.0.1:9/")), ("urllib.request", "urlopen", text("http://127.0.0.1:9/")),
    ("socket", "create_connection", ints(0, 9)), ("ssl", "get_server_certificate", ints(0, 9)), ("smtplib", "SMTP", text("127.0.0.1")),
    ("ctypes", "CDLL", text("libc.so.6")), ("ctypes", "string_at", integer(0)), ("_ctypes", "dlopen", text("libc.so.6") + integer(0)),
    ("pickle", "loads", text("cos\nsystem\n.")), ("_pickle", "loads", text("x")), ("marshal", "loads", text("x")), ("shelve", "open", text(CANARY)),
    ("dill", "loads", text("x")), ("cloudpickle", "loads", text("x")), ("joblib", "load", text(CANARY)), ("pandas", "read_pickle", text(CANARY)),
    ("operator", "attrgetter", text("system")), ("operator", "methodcaller", text("system") + text(TOUCH)), ("_operator", "itemgetter", integer(0)),
    ("functools", "partial", b"N"), ("functools", "reduce", b"N"), ("itertools", "repeat", b"N"), ("types", "FunctionType", b"N"),
    ("types", "CodeType", b"N"), ("builtins", "getattr", text("x") + text("__class__")), ("builtins", "setattr", text("x") + text("y") + b"N"),
    ("builtins", "map", b"N"), ("builtins", "filter", b"N"), ("builtins", "vars", b""), ("builtins", "globals", b""), ("builtins", "type", b"N"),
    ("builtins", "super", b""), ("builtins", "input", b""), ("builtins", "breakpoint", b""), ("builtins", "memoryview", b"N"),
    ("builtins", "property", b"N"), ("builtins", "print", text("canary")), ("builtins", "str.format", text("{0}")), ("gc", "get_objects", b""),
    ("inspect", "getattr_static", b"N"), ("weakref", "finalize", b"N"), ("threading", "Thread", b""), ("signal", "alarm", integer(1)),
    ("multiprocessing.util", "spawnv_passfds", text("/bin/true")), ("asyncio", "run", b"N"), ("asyncio.unix_events", "_UnixSubprocessTransport._start", b""),
    ("copyreg", "_reconstructor", name("builtins", "object") + name("builtins", "object") + b"N"), ("copyreg", "add_extension", text("os") + text("system") + integer(1)),
    ("copy_reg", "__newobj__", name("builtins", "object")), ("copyreg", "pickle", b"N"), ("logging.config", "listen", integer(0)),
    ("uuid", "_get_command_stdout", text(TOUCH)), ("distutils.spawn", "spawn", text(TOUCH)), ("pip", "main", text("install")),
    ("pip._internal.cli.main", "main", text("install")), ("ensurepip", "_run_pip", text("x")), ("venv", "create", text(CANARY)),
    ("idlelib.run", "Executive.runcode", text(CODE)), ("lib2to3.pgen2.grammar", "Grammar.loads", text("x")), ("zipimport", "zipimporter", text(CANARY)),
    ("tempfile", "mktemp", b""), ("tarfile", "open", text(CANARY)), ("sqlite3", "connect", text(CANARY)), ("xmlrpc.client", "ServerProxy", text("http://x")),
    ("numpy", "load", text(CANARY)), ("numpy", "fromfile", text(CANARY)), ("numpy.testing._private.utils", "runstring", text(CODE) + b"}"),
    ("numpy.f2py.crackfortran", "myeval", text(CODE)), ("numpy.distutils.exec_command", "_exec_command", text(TOUCH)), ("numpy", "memmap", text(CANARY)),
    ("torch", "load", text(CANARY)), ("torch.serialization", "load", text(CANARY)), ("torch.storage", "_load_from_bytes", text("x")),
    ("torch.hub", "load", text("a/b") + text("c")), ("torch.jit", "load", text(CANARY)), ("torch.jit.unsupported_tensor_ops", "execWrapper", text(CODE) + b"}}"),
    ("torch.utils._config_module", "ConfigModule.load_config", text("x")), ("torch._dynamo.guards", "GuardBuilder.get", text(CODE)),
    ("torch.utils.bottleneck.__main__", "run_cprofile", text(CODE)), ("torch._inductor.codecache", "compile_file", text(CANARY)),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression", text(CODE)), ("torch.utils.data.datapipes.utils.decoder", "basichandlers", text("pkl")),
    ("torch.utils.cpp_extension", "load", text("x")), ("torch.distributed.rpc", "rpc_sync", text("x")), ("torch.package", "PackageImporter", text(CANARY)),
    ("torch", "from_file", text(CANARY)), ("torch.nn.modules.module", "Module.__setattr__", b"N"), ("torch", "_C", b""), ("metatensor", "load", text(CANARY)),
    ("metatensor.serialization", "add_safe_globals", b"]"), ("metatensor.plugins", "load_ops", b""), ("metatensor.checkpoint._pickle", "Machine", b""),
    ("__main__", "anything", b""), ("", "", b""), ("antigravity", "fly", b""), ("this", "s", b""), ("a..b", ".c.", b""), ("os\0x", "system", b""),
]  # fmt: skip

SYSTEM = name("posix", "system")
ARGUMENTS = b"(" + text(TOUCH) + b"t"
SYSTEM_REASON = ("posix.system", "add_safe_globals")

# All ways in which an opcode may call something.
ROUTES = [
    ("reduce, protocol 0", b"cposix\nsystem\n(S'" + TOUCH.encode() + b"'\ntR.", SYSTEM_REASON),
    ("reduce by a name from the stack", P4 + stack_name("posix", "system") + ARGUMENTS + b"R.", SYSTEM_REASON),
    ("reduce by short texts and the memo", P4 + b"\x8c\x05posix\x94\x8c\x06system\x94h\x00h\x01\x93\x94" + ARGUMENTS + b"R.", SYSTEM_REASON),
    ("names put together from the memo", P4 + text("system") + b"q\x00" + b"0" + text("posix") + b"h\x00\x93" + ARGUMENTS + b"R.", SYSTEM_REASON),
    ("inst", b"(S'" + TOUCH.encode() + b"'\niposix\nsystem\n.", SYSTEM_REASON),
    ("obj", P2 + b"(" + SYSTEM + text(TOUCH) + b"o.", SYSTEM_REASON),
    ("newobj", P2 + SYSTEM + ARGUMENTS + b"\x81.", SYSTEM_REASON),
    ("newobj_ex", P4 + SYSTEM + ARGUMENTS + b"}\x92.", SYSTEM_REASON),
    ("build of a function", P2 + SYSTEM + b"}" + text("a") + b"Ksb.", SYSTEM_REASON),
    ("build that replaces __setstate__", P2 + name("torch.nn.modules.module", "Module") + b")\x81}" + text("__setstate__") + SYSTEM + b"sb" + text(TOUCH) + b"b.",
     ("torch.nn.modules.module.Module", "posix.system")),
    ("build of an OrderedDict that hides items()", P2 + name("collections", "OrderedDict") + b")R}" + text("items") + integer(1) + b"sb.", ("'items'",)),
    ("build of an OrderedDict's class", P2 + name("collections", "OrderedDict") + b")R}" + text("__class__") + integer(1) + b"sb.", ("__class__",)),
    ("build of an OrderedDict's dict", P2 + name("collections", "OrderedDict") + b")R}" + text("__dict__") + b"}sb.", ("__dict__",)),
    ("build with slots", P2 + name("collections", "OrderedDict") + b")RN}" + text("a") + b"Ks\x86b.", ("state",)),
    ("build of a tensor", P2 + tensor() + b"}" + text("data") + b"Nsb.", ("BUILD",)),
    ("build of a list", P2 + b"]}b.", ("BUILD of a list",)),
    ("build of a dict's class", P2 + name("collections", "OrderedDict") + b"}" + text("__reduce__") + b"Nsb.", ("BUILD",)),
    ("ext1", P2 + b"\x82\x01" + ARGUMENTS + b"R.", ("EXT1",)),
    ("ext2", P2 + b"\x83\x01\x00" + ARGUMENTS + b"R.", ("EXT2",)),
    ("ext4", P2 + b"\x84\x01\x00\x00\x00" + ARGUMENTS + b"R.", ("EXT4",)),
    ("persid that is a name", b"Pposix.system\n" + ARGUMENTS + b"R.", ("persistent id",)),
    ("binpersid that is a name", P2 + SYSTEM + b"Q" + ARGUMENTS + b"R.", SYSTEM_REASON),
    ("binpersid whose class is a call", P2 + b"(" + text("storage") + SYSTEM + text("0") + text("cpu") + b"K\x04tQ.", SYSTEM_REASON),
    ("binpersid of a module with its source", P2 + b"(" + text("module") + name("__main__", "Net") + text("net.py") + text(CODE) + b"tQ.", ("__main__.Net",)),
    ("next_buffer", P5 + b"\x97.", ("NEXT_BUFFER",)),
    ("readonly_buffer", P5 + b"\x97\x98.", ("BUFFER",)),
    ("a name with dots", P4 + stack_name("collections", "OrderedDict.__init__.__globals__") + b".", ("OrderedDict.__init__.__globals__",)),
    ("a name with dots through a function", P4 + stack_name("torch._utils", "_rebuild_tensor_v2.__globals__") + b".", ("__globals__",)),
    ("a known name, split at another dot", P4 + stack_name("torch", "_utils._rebuild_tensor_v2") + b".", ("_utils._rebuild_tensor_v2",)),
    ("a name with a newline", P4 + stack_name("collections\nOrderedDict", "x") + b".", ("invalid names",)),
    ("INST of a known name", b"(icollections\nOrderedDict\nNb.", ("state",)),
    ("a name that is not a string", P4 + b"K\x01" + text("system") + b"\x93.", ("STACK_GLOBAL",)),
    ("a name that is bytes", P4 + b"C\x05posixC\x06system\x93.", ("STACK_GLOBAL",)),
    ("a name with surrogates", P4 + b"X\x03\x00\x00\x00\xed\xa0\x80" + text("x") + b"\x93.", ("names",)),
    ("a name that looks known", P2 + name("collections ", "OrderedDict") + b")R.", ("collections .OrderedDict",)),
    ("a name of letters that look alike", P4 + stack_name("c\u043ellections", "OrderedDict") + b")R.", ("OrderedDict",)),
    ("a name in another case", P2 + name("Collections", "OrderedDict") + b")R.", ("Collections.OrderedDict",)),
    ("getattr of getattr", P2 + name("builtins", "getattr") + b"(" + name("builtins", "getattr") + text("__self__") + b"tR(" + text("eval") + b"tR.", ("builtins.getattr",)),
    ("getattr after __import__", P2 + name("builtins", "getattr") + b"(" + name("builtins", "__import__") + b"(" + text("os") + b"tR" + text("system") + b"tR" + ARGUMENTS + b"R.",
     ("builtins.getattr", "builtins.__import__")),
    ("a call of another call's result", P2 + name("operator", "methodcaller") + b"(" + text("system") + text(TOUCH) + b"tR(" + name("builtins", "__import__") + b"(" + text("os") + b"tRtR.",
     ("operator.methodcaller", "__import__")),
    ("a call dropped before the end", P2 + SYSTEM + ARGUMENTS + b"R0N.", SYSTEM_REASON),
    ("a call before a broken end", P2 + SYSTEM + ARGUMENTS + b"R\xff", SYSTEM_REASON),
    ("a call after many good values", P2 + b"(" + text("x") * 2000 + b"0" + SYSTEM + ARGUMENTS + b"Rt.", SYSTEM_REASON),
    ("a call as a dict's value", P2 + b"}" + text("a") + SYSTEM + ARGUMENTS + b"Rs.", SYSTEM_REASON),
    ("a call as a key", P2 + b"}" + SYSTEM + ARGUMENTS + b"RNs.", SYSTEM_REASON),
    ("a call as a tensor's hooks", P2 + tensor(hooks=SYSTEM + ARGUMENTS + b"R") + b".", SYSTEM_REASON),
    ("a call as a tensor's size", P2 + tensor(size=SYSTEM + ARGUMENTS + b"R") + b".", SYSTEM_REASON),
    ("a call as a factory of defaultdict", P2 + name("collections", "defaultdict") + b"(" + SYSTEM + b"tR.", SYSTEM_REASON),
    ("a factory of defaultdict that is a method", P2 + name("collections", "defaultdict") + b"(" + name("collections", "OrderedDict.update") + b"tR.", ("OrderedDict.update",)),
    ("a call by _rebuild_from_type_v2", P2 + name("torch._tensor", "_rebuild_from_type_v2") + b"(" + SYSTEM + name("torch", "Tensor") + ARGUMENTS + b"}tR.", SYSTEM_REASON),
    ("a class by _rebuild_from_type_v2", P2 + name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("torch._utils", "_rebuild_tensor_v2")
     + name("subprocess", "Popen") + arguments() + b"}tR.", ("subprocess.Popen",)),
    ("_rebuild_from_type_v2 with a class that is not a tensor class", P2 + name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("torch._utils", "_rebuild_tensor_v2")
     + name("collections", "OrderedDict") + arguments() + b"}tR.", ("not a tensor class",)),
    ("attributes of a parameter that tensors have", P2 + name("torch._utils", "_rebuild_parameter_with_state") + b"(" + tensor() + b"\x88" + name("collections", "OrderedDict")
     + b")R}" + text("data") + b"NstR.", ("'data'",)),
    ("attributes of a parameter that begin with __", P2 + name("torch._utils", "_rebuild_parameter_with_state") + b"(" + tensor() + b"\x88" + name("collections", "OrderedDict")
     + b")R}" + text("__torch_function__") + b"NstR.", ("__torch_function__",)),
    ("a value that is called", P2 + text("x") + ARGUMENTS + b"R.", ("not callable",)),
    ("a tensor that is called", P2 + tensor() + ARGUMENTS + b"R.", ("not callable",)),
    ("a dtype that is called", P2 + name("torch", "float32") + b")R.", ("not callable",)),
    ("a class that is only a name", P2 + name("torch", "Tensor") + b")R.", ("torch.Tensor", "not call")),
    ("list as a function", P2 + name("builtins", "list") + b"(" + text("x") + b"tR.", ("builtins.list", "not call")),
    ("str as a function", P2 + name("builtins", "str") + b"(K\x01tR.", ("builtins.str", "not call")),
    ("newobj of a tensor", P2 + name("torch", "Tensor") + b")\x81.", ("torch.Tensor",)),
    ("newobj of an OrderedDict", P2 + name("collections", "OrderedDict") + b")\x81.", ("NEWOBJ",)),
    ("newobj_ex with keywords", P4 + name("collections", "OrderedDict") + b")}" + text("a") + b"Ns\x92.", ("NEWOBJ_EX",)),
    ("reduce without a tuple", P2 + name("collections", "OrderedDict") + b"]R.", ("tuple of arguments",)),
    ("codecs.encode by another codec", P2 + name("_codecs", "encode") + b"(" + text("x") + text("idna") + b"tR.", ("latin1",)),
    ("codecs.decode", P2 + name("_codecs", "decode") + b"(" + text("x") + text("rot13") + b"tR.", ("_codecs.decode",)),
    ("numpy array of objects", P2 + name("numpy", "dtype") + b"(" + text("O") + b"tR.", ("plain dtype",)),
    ("numpy dtype by fields", P2 + name("numpy", "dtype") + b"(" + text("i4,i4") + b"tR.", ("plain dtype",)),
    ("numpy dtype with a lying size", P2 + name("numpy", "dtype") + b"(" + text("S4") + b"tR(K\x03" + text("|") + b"NNN" + integer(10**6) + integer(1) + b"K\x00tb.", ("size",)),
    ("numpy array with too few bytes", P2 + name("numpy.core.multiarray", "_reconstruct") + b"(" + name("numpy", "ndarray") + ints(0) + b"C\x01btR(K\x01" + ints(1000)
     + name("numpy", "dtype") + b"(" + text("f4") + b"tR\x89C\x04abcdtb.", ("1,000 elements",)),
    ("numpy array of another class", P2 + name("numpy.core.multiarray", "_reconstruct") + b"(" + name("numpy", "memmap") + ints(0) + b"C\x01btR.", ("numpy.memmap",)),
    ("numpy scalar of an object", P2 + name("numpy.core.multiarray", "scalar") + b"(" + text("O") + b"C\x08abcdefghtR.", ("plain dtype",)),
]

DEEP = 100_000

# Pickles that exhaust memory or time, or crash, without a call.
STRUCTURE = [
    ("nothing", b"", ("truncated|opcode",)),
    ("no stop", P2 + b"N", ("truncated|left over",)),
    ("stop alone", b".", ("underflow",)),
    ("two values", P2 + b"NN.", ("left over",)),
    ("a mark left over", P2 + b"(N.", ("1 marks", "left over")),
    ("an unknown opcode", P2 + b"\xff.", ("0xff", "not a pickle opcode")),
    ("an opcode of zero", P2 + b"\x00.", ("0x00",)),
    ("protocol 6", b"\x80\x06N.", ("protocol 6",)),
    ("protocol 255", b"\x80\xffN.", ("protocol 255",)),
    ("pop of nothing", P2 + b"0.", ("underflow",)),
    ("dup of nothing", P2 + b"2.", ("underflow",)),
    ("reduce of nothing", P2 + b"R.", ("underflow",)),
    ("build of nothing", P2 + b"b.", ("underflow",)),
    ("tuple without a mark", P2 + b"Nt.", ("MARK",)),
    ("tuple3 of two", P2 + b"NN\x87.", ("underflow",)),
    ("tuple2 across a mark", P2 + b"N(N\x86.", ("underflow",)),
    ("setitem across a mark", P2 + b"}(NNs.", ("underflow",)),
    ("setitems without a dict", P2 + b"(NNu.", ("underflow",)),
    ("SETITEMS with a key and no value", P2 + b"}(Nu.", ("has no value",)),
    ("setitems of a list", P2 + b"](NNu.", ("setting items of a list",)),
    ("append to a dict", P2 + b"}Na.", ("appending to a dict",)),
    ("appends to a tensor", P2 + tensor() + b"(Ne.", ("appending",)),
    ("additems of a list", P4 + b"](N\x90.", ("adding items",)),
    ("DICT with a key and no value", P2 + b"(Nd.", ("has no value",)),
    ("obj of nothing", P2 + b"(o.", ("underflow",)),
    ("GET of an index that was never put", P2 + b"h\x05.", ("never set",)),
    ("LONG_BINGET of an index that was never put", P2 + b"j\xff\xff\xff\xff.", ("never set",)),
    ("textual GET of an index that was never put", b"g99999999999999\n.", ("memo index",)),
    ("get of a negative index", b"g-1\n.", ("memo index",)),
    ("put far away", P2 + b"Nr\xff\xff\xff\x7f.", ("memo index",)),
    ("put farther away", P2 + b"Nr\xff\xff\xff\xff.", ("memo index",)),
    ("text put far away", b"Np4294967296\n.", ("memo index",)),
    ("put of nothing", P2 + b"q\x00.", ("underflow",)),
    ("memoize of nothing", P4 + b"\x94.", ("underflow",)),
    ("a frame of 2**63 bytes", P4 + b"\x95" + b"\xff" * 7 + b"\x7fN.", ("frame",)),
    ("a frame of 2**64 - 1 bytes", P4 + b"\x95" + b"\xff" * 8 + b"N.", ("frame",)),
    ("a text of 4 GiB", P2 + b"X\xff\xff\xff\xffab.", ("truncated",)),
    ("a text of 2**64 - 1 bytes", P4 + b"\x8d" + b"\xff" * 8 + b"ab.", ("truncated",)),
    ("bytes of 4 GiB", P2 + b"B\xff\xff\xff\xffab.", ("truncated",)),
    ("bytes of 2**63 bytes", P4 + b"\x8e" + b"\0" * 7 + b"\x80ab.", ("truncated",)),
    ("a bytearray of 2**63 - 1 bytes", P5 + b"\x96" + b"\xff" * 7 + b"\x7fab.", ("truncated",)),
    ("an old string of -1 bytes", P2 + b"T\xff\xff\xff\xffab.", ("negative",)),
    ("a number of -1 bytes", P2 + long4(b"ab", -1) + b".", ("negative",)),
    ("a number of 2 GiB", P2 + long4(b"ab", 2**31 - 1) + b".", ("truncated",)),
    ("a number of many digits", b"L" + b"9" * 100_000 + b"L\n.", ("line",)),
    ("a number in words", b"Iseven\n.", ("not an integer",)),
    ("a number with underscores", b"I1_0\n.", ("not an integer",)),
    ("a float in words", b"Fseven\n.", ("not a number",)),
    ("a text without quotes", b"Sabc\n.", ("quotes",)),
    ("a text with a broken escape", b"S'\\x1'\n.", ("escape",)),
    ("a text that is not UTF-8", P2 + b"X\x02\x00\x00\x00\xff\xfe.", ("UTF-8",)),
    ("a name without an end", b"cposix" * 2000, ("name",)),
    ("lists in lists", P2 + b"]" * DEEP + b"a" * (DEEP - 1) + b".", ("nested",)),
    ("tuples in tuples", P2 + b")" + b"\x85" * DEEP + b".", ("nested",)),
    ("dicts in dicts", P2 + b"}N" * DEEP + b"}" + b"s" * DEEP + b".", ("nested",)),
    ("tuples in tuples, few", P4 + b"N" + b"\x85" * 201 + b".", ("nested",)),
    ("OrderedDicts in tuples in lists", P2 + (b"](" + name("collections", "OrderedDict") + b")R" + text("a")) * 0 + b"](](](](](](" * 40 + b"N" + b"e" * 240 + b".", ("nested",)),
    ("marks without an end", P2 + b"(" * DEEP + b".", ("underflow",)),
    ("a list in itself", P2 + b"]q\x00h\x00a.", ("contains itself",)),
    ("a dict in itself", P2 + b"}q\x00" + text("a") + b"h\x00s.", ("contains itself",)),
    ("a list in a tuple in itself", P2 + b"]q\x00h\x00\x85a.", ("contains itself",)),
    ("two lists in each other", P2 + b"]q\x00]q\x01h\x00aa.", ("contains itself",)),
    ("an OrderedDict in itself", P2 + name("collections", "OrderedDict") + b")Rq\x00" + text("a") + b"h\x00s.", ("contains itself",)),
    ("a set of a tuple of itself", P4 + b"\x8fq\x00(h\x00\x85\x90.", ("hash",)),
    ("exponential nesting of tuples", P2 + b"N\x85" + b"2\x86" * 100 + b".", ("steps",)),
    ("exponential nesting of lists", P2 + b"]" + b"q\x000]h\x00ah\x00a" * 60 + b".", ("steps",)),
    ("exponential nesting of lists of ten", P2 + b"N\x85" + (b"q\x000(" + b"h\x00" * 10 + b"l") * 30 + b".", ("steps",)),
    ("exponential nesting of dicts", P2 + b"N\x85" + b"q\x000}K\x00h\x00sK\x01h\x00s" * 60 + b".", ("steps",)),
    ("exponential nesting in a key", P2 + b"}" + b"N\x85" + b"2\x86" * 60 + b"Ns.", ("256 items",)),
    ("exponential nesting in an item of a set", P4 + b"\x8f(" + b"N\x85" + b"2\x86" * 60 + b"\x90.", ("256 items",)),
    ("exponential nesting in the argument of set()", P2 + name("builtins", "set") + b"(]" + b"N\x85" + b"2\x86" * 60 + b"atR.", ("256 items",)),
    ("a list as a key", P2 + b"}]Ns.", ("hash",)),
    ("a dict as a key", P2 + b"}}Ns.", ("hash",)),
    ("a key of many bits", P2 + b"}" + long4(b"\x01" * 10_000) + b"Ns.", ("bits",)),
    ("a key that is a tuple of a list", P2 + b"}]\x85Ns.", ("hash",)),
    ("copies of a large text", P2 + text("x" * 2**20) + text("latin1") + b"\x86q\x000" + name("_codecs", "encode") + b"q\x010(" + b"h\x01h\x00R" * 20_000 + b"t.", ("bound",)),
    ("copies of large bytes", P2 + b"B" + struct.pack("<I", 2**20) + b"x" * 2**20 + b"\x85q\x000" + name("builtins", "bytearray") + b"q\x010(" + b"h\x01h\x00R" * 20_000 + b"t.", ("bound",)),
    ("copies of a large list", P2 + b"](" + b"N" * 100_000 + b"e\x85q\x000" + name("builtins", "set") + b"q\x010(" + b"h\x01h\x00R" * 50_000 + b"t.", ("bound",)),
    ("OrderedDicts of a large list", P2 + b"](" + b"NN\x86" * 50_000 + b"e\x85q\x000" + name("collections", "OrderedDict") + b"q\x010(" + b"h\x01h\x00R" * 20_000 + b"t.", ("bound",)),
    ("arrays of large bytes", P2 + name("numpy", "dtype") + b"(" + text("S999999") + b"\x89\x88tRq\x00B" + struct.pack("<I", 999_999) + b"x" * 999_999 + b"\x86q\x010"
     + name("numpy.core.multiarray", "scalar") + b"q\x020(" + b"h\x02h\x01R" * 20_000 + b"t.", ("bound",)),
    ("1,100 unknown names", P2 + b"(" + b"".join(name("m", f"n{i}") for i in range(1100)) + b"t.", ("m.n0", "more")),
    ("keys of one hash", P2 + b"}(" + b"".join(ints(*(-1 - (i >> k & 1) for k in range(12))) + b"N" for i in range(4096)) + b"u.", ("the same hash",)),
    ("items of one hash", P4 + b"\x8f(" + b"".join(ints(*(-1 - (i >> k & 1) for k in range(12))) for i in range(4096)) + b"\x90.", ("the same hash",)),
]

BIG = 2**62

# Invalid tensors and storages.
TENSORS = [
    ("a storage that is not in the file", P2 + tensor(storage("7")) + b".", ("not in the file|storages",)),
    ("a storage larger than its member", P2 + tensor(storage("0", 1000)) + b".", ("storage '0'",)),
    ("a storage smaller than its member", P2 + tensor(storage("0", 1), size=(1,)) + b".", ("storage '0'",)),
    ("a storage of -1 elements", P2 + tensor(storage("0", -1)) + b".", ("-1",)),
    ("a storage of 2**62 elements", P2 + tensor(storage("0", BIG)) + b".", ("elements",)),
    ("a storage of 2**100 elements", P2 + tensor(storage("0", 2**100)) + b".", ("elements",)),
    ("a storage whose size is a float", P2 + tensor(storage("0", b"G" + struct.pack(">d", 4.0))) + b".", ("size",)),
    ("a storage whose size is a bool", P2 + tensor(storage("0", b"\x88")) + b".", ("size",)),
    ("a storage with a number for a key", P2 + tensor(storage().replace(text("0"), b"K\x00")) + b".", ("key",)),
    ("a storage that leads out of the archive", P2 + tensor(storage("../data.pkl")) + b".", ("not in the file|storages",)),
    ("a storage that is the pickle", P2 + tensor(storage("../../etc/passwd")) + b".", ("not in the file|storages",)),
    ("a storage nowhere", P2 + tensor(storage(location="x" * 1000)) + b".", ("location",)),
    ("a storage whose class is not a storage class", P2 + tensor(storage(kind=("torch", "Size"))) + b".", ("not a storage class",)),
    ("a storage of a class that is unknown", P2 + tensor(storage(kind=("torch", "EvilStorage"))) + b".", ("torch.EvilStorage",)),
    ("one storage of two sizes", P2 + tensor() + tensor(storage("0", 2, ("torch", "DoubleStorage")), size=(1,)) + b"\x86.", ("dtype",)),
    ("a persistent id of another kind", P2 + storage(first="os") + b".", ("persistent id",)),
    ("a persistent id that is a text", P2 + text("storage") + b"Q.", ("persistent id",)),
    ("a persistent id that is short", P2 + b"(" + text("storage") + b"tQ.", ("persistent id",)),
    ("a persistent id that is a list", P2 + b"]Q.", ("persistent id",)),
    ("a view beyond its storage", P2 + tensor(size=(5,)) + b".", ("needs 20 bytes",)),
    ("a view that begins beyond its storage", P2 + tensor(offset=5, size=(1,)) + b".", ("needs 24 bytes",)),
    ("a view of a negative offset", P2 + tensor(offset=-1) + b".", ("offset",)),
    ("a view of an offset of 2**62", P2 + tensor(offset=BIG) + b".", ("invalid tensor|offset",)),
    ("a view of an offset of 2**100", P2 + tensor(offset=2**100) + b".", ("offset",)),
    ("an empty view of an offset of 2**62", P2 + tensor(offset=BIG, size=(0,)) + b".", ("invalid tensor",)),
    ("a negative size", P2 + tensor(size=(-4,)) + b".", ("negative",)),
    ("a negative stride", P2 + tensor(stride=(-1,)) + b".", ("negative",)),
    ("a size of 2**100", P2 + tensor(size=(2**100,)) + b".", ("63 bits",)),
    ("sizes whose product is 0 modulo 2**64", P2 + tensor(size=(2**32, 2**32), stride=(0, 0)) + b".", ("invalid tensor",)),
    ("sizes whose product is small modulo 2**64", P2 + tensor(size=(2**33 + 1, 2**31), stride=(2**31, 1)) + b".", ("invalid tensor|needs",)),
    ("strides beyond 63 bits", P2 + tensor(size=(4, 4), stride=(BIG, BIG)) + b".", ("invalid tensor",)),
    ("a size that is a text", P2 + tensor(size=text("4")) + b".", ("tuple",)),
    ("a size that is a list", P2 + tensor(size=b"(K\x04l") + b".", ("tuple",)),
    ("a size of fractions", P2 + tensor(size=b"G" + struct.pack(">d", 4.0) + b"\x85") + b".", ("integers",)),
    ("more sizes than strides", P2 + tensor(size=(2, 2)) + b".", ("2 sizes",)),
    ("600 dimensions", P2 + tensor(size=(1,) * 600, stride=(1,) * 600) + b".", ("600 sizes",)),
    ("a tensor over a text", P2 + tensor(text("storage")) + b".", ("not a storage",)),
    ("a tensor over a tensor", P2 + tensor(tensor()) + b".", ("not a storage",)),
    ("a tensor of too many arguments", P2 + tensor(extra=b"NNN") + b".", ("arguments",)),
    ("a tensor of no arguments", P2 + name("torch._utils", "_rebuild_tensor_v2") + b")R.", ("arguments",)),
    ("a tensor with strange metadata", P2 + tensor(extra=b"}" + text("device") + text("cuda") + b"s") + b".", ("metadata",)),
    ("a conjugate of reals", P2 + tensor(extra=b"}" + text("conj") + b"\x88s") + b".", ("metadata",)),
    ("a gradient of an integer tensor", P2 + tensor(storage("0", 2, ("torch", "LongStorage")), size=(2,), grad=b"\x88") + b".", ("gradients",)),
    ("a gradient that is a text", P2 + tensor(grad=text("no")) + b".", ("requires_grad",)),
    ("a tensor of bytes without a dtype", P2 + tensor(storage("0", 16, ("torch.storage", "UntypedStorage"))) + b".", ("needs a dtype",)),
    ("a tensor of v3 whose dtype is a text", P2 + tensor(storage("0", 16, ("torch.storage", "UntypedStorage")), extra=text("float32"), rebuild="_rebuild_tensor_v3") + b".", ("dtype",)),
    ("a parameter of a text", P2 + name("torch._utils", "_rebuild_parameter") + b"(" + text("x") + b"\x88NtR.", ("takes a tensor",)),
    ("a meta tensor of a text", P2 + name("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + text("x") + b"))\x88tR.", ("_rebuild_meta_tensor",)),
    ("a meta tensor beyond 63 bits", P2 + name("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + name("torch", "float32") + ints(BIG, BIG) + ints(1, 1) + b"\x89tR.",
     ("_rebuild_meta_tensor",)),
    ("a view of a view beyond it", P2 + tensor(storage()[:-2] + b"(" + text("1") + integer(3) + integer(2) + b"ttQ", size=(1,)) + b".", ("beyond storage",)),
    ("a tensor beyond a view", P2 + tensor(storage()[:-2] + b"(" + text("1") + integer(1) + integer(2) + b"ttQ", size=(3,)) + b".", ("needs",)),
    ("a call with an array in place of its arguments", P4 + name("collections", "OrderedDict") + ARRAY + b"R.", ("takes a tuple",)),
    ("a call with an array in place of its arguments, in a tuple", P4 + b"(" + name("collections", "OrderedDict") + ARRAY + b"Rt.", ("takes a tuple",)),
    ("an unknown call with an array in place of its arguments", P4 + b"(" + name("a", "b") + ARRAY + b"Rt.", ("a.b",)),
    ("a persistent id that begins with an array", P4 + b"(" + ARRAY + b"NNNNtQ.", ("persistent id",)),
    ("a persistent id of four that begins with an array", P4 + b"(" + ARRAY + b"NNNtQ.", ("persistent id",)),
    ("a tensor whose metadata are an array", P4 + tensor(extra=ARRAY) + b".", ("metadata",)),
    ("a storage with a key of surrogates", P4 + tensor(storage()[:-2].replace(text("0"), b"X\x03\x00\x00\x00\xed\xa0\x80") + b"tQ") + b".", ("not in the file|must be equal",)),
    ("a storage class as a value", P2 + name("torch", "FloatStorage") + b".", ("not a value",)),
    ("a function as a value", P2 + name("torch._utils", "_rebuild_tensor_v2") + b".", ("not a value",)),
]  # fmt: skip

CASES = [
    *((f"call {module}.{attribute}", call(module, attribute, argument), (attribute or "add_safe_globals",)) for module, attribute, argument in CALLABLES),
    *ROUTES, *STRUCTURE, *TENSORS,
]  # fmt: skip


def zipped(pickle, storages=((("0"), bytes(16)),)):
    """Return a PyTorch archive with this pickle."""
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{ARCHIVE_PREFIX}data.pkl", pickle)
        archive.writestr(f"{ARCHIVE_PREFIX}byteorder", "little")
        for key, data in storages:
            archive.writestr(f"{ARCHIVE_PREFIX}data/{key}", data)
        archive.writestr(f"{ARCHIVE_PREFIX}version", "3\n")
    return out.getvalue()


def legacy(pickle, storages=((("0"), 4, bytes(16)),)):
    """Return a file of the older format with this pickle. Storages are (key, number of elements, bytes)."""
    import pickle as standard

    head = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}]
    parts = [standard.dumps(item, 2) for item in head]
    parts += [pickle, standard.dumps([key for key, _, _ in storages], 2)]
    parts += [struct.pack("<q", numel) + data for _, numel, data in storages]
    return b"".join(parts)
