"""The set-ups that the documentation shows, run as users run them, and audited from outside.

A set-up is an application file, a database with its driver or ORM, the kinds of source, and the
processes that serve it. Four senders deliver to it, with and without faults. Afterwards a
connection of the audit's own looks for everything that was acknowledged.
"""
