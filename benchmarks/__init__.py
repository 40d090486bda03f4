"""What a call costs: a table of cases by family (``bench_*.py``) and one program that times them all (``run.py``)."""
