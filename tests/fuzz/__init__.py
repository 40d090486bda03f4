"""Random programs against the whole surface of metatensor: legal calls, illegal ones, and objects that misbehave.

    cd tests && python -m fuzz --calls 1000000 --seed 1             # on meta; a call is one line of a program
    cd tests && python -m fuzz --calls 50000 --seed 1 --device cpu
    cd tests && python -m fuzz --seed 1 --only 4711                 # one program again, printed as it runs
    cd tests && python -m fuzz --calls 200000 --seed 1 --repeat 40  # every program forty times: exact leaks

Program number N of seed S depends on S, N and the registry of ops alone. Whatever goes in, only ordinary Python
exceptions may come out; see `runner` for what counts as a failure. `make sanitize` runs it under AddressSanitizer and
UndefinedBehaviorSanitizer.

| file | what |
| --- | --- |
| `world.py` | the names that a program may use: tensors in every form, objects that misbehave |
| `values.py` | random expressions for arguments, by schema type |
| `calls.py` | programs that call ops, from their schemas and from the recorded calls of `tests/oracle` |
| `surface.py` | programs for everything else: indexing, storages, modules, modes, pickles, the definition of ops |
| `runner.py` | runs programs, judges what comes out, and watches growth |
| `shrink.py` | the smallest program that still fails |
| `__main__.py` | the command |
"""
