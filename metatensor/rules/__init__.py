"""Tables of properties of operators, such as FLOPs and autocast policies, by operator name. Each module has one
subject.
"""
