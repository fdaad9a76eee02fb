"""The demonstration: processes race for the same events while some are killed; the books balance.

`worker` is the program to read first: the plain loop a user of duly would write. The rest is the
world around it: a sender that repeats itself, somebody who kills, and an audit.
"""
