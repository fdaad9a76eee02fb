"""The crash matrix: every flow × every statement boundary × every fault × every store.

A flow is run once unharmed, to learn its statements: nothing is listed by hand, and new SQL is
covered by itself. Then it is run again for each boundary, fault and store, in a child of its own,
which the fault strikes there. What was promised to the outside is written down outside. Then the
sender retries, a worker and a relay come, and the invariants of the design are checked.

    python -m verification.crash_matrix --help
"""
