"""How the cost of a delivery and of a job grows: with rows, handlers, bodies and processes.

Every point is a database of its own with so many rows already there, a `duly serve` as shipped and
workers of their own. The cost is processor time, the server's or the worker's and PostgreSQL's.
"""
