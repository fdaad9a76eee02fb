"""The storm: real processes on a real database, broken on purpose, and a ledger that balances.

A sender delivers events at least once, with copies, forgeries and lost connections; receivers,
workers and a relay are killed, stopped and restarted; the database goes away; a receiver downstream
records what arrives. Then the faults stop, everything is finished, and what was sent is compared
with what took effect. `shop` is the application under test, `orchestrator` runs the phases,
`ledger` holds the equations. Internal: `duly demo` and `make storm` run it.
"""
