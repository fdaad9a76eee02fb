"""Every statement that this process sends to a database, before and after it is run.

Whoever wants to kill a process, or cut its connection, at a chosen statement has to know them all:
duly's own and the user's, on any connection. Nothing is listed by hand, so a new statement is
seen by itself.
"""

from duly.prove.steps.watching import Step, Watcher, watching

__all__ = ["Step", "Watcher", "watching"]
