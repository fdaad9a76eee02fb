"""The storm: real processes on a real database, broken on purpose, and a ledger that balances.

A sender delivers events at least once and badly; ingress, workers and a relay are killed, stopped
and restarted; the database goes away; a receiver downstream writes down what arrives. Then the
faults stop, everything is finished, and what was sent is compared with what took effect. `shop` is
the application under test, `play` the order of events, `ledger` the equations.
"""
