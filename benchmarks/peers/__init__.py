"""The peers: what a careful expert would write by hand, with the same driver on the same tables.

A peer commits as durably as duly, names keys by SHA-256, claims by ``INSERT … ON CONFLICT DO
NOTHING RETURNING`` and reads the row of a duplicate in a next statement. It writes the same columns
into a table with the same definition and indexes, made by duly's own migration under another name.

A peer takes each short cut that duly's promises forbid, and each makes it faster: it checks no
argument, takes over no expired claim, reruns nothing after a lost connection, and sets the bound of
a lock wait once for its connection, which would not survive a pooler. Where one statement is enough
it lets the connection commit by itself and pays for no BEGIN.
"""
