"""The peers: what a careful expert would write by hand, with the same driver on the same tables.

A peer commits as durably as duly, names keys by SHA-256, claims by ``INSERT … ON CONFLICT DO
NOTHING RETURNING`` and reads the row of a duplicate in a next statement. It writes the same columns
into a table with the same definition and indexes, made by duly's own migration under another name.

A claim and the read that may follow it stand in one explicit transaction. A lean peer, asked for by
``--lean``, leaves BEGIN and COMMIT out where single statements can do, as duly's own stores do.

Either takes each short cut that duly's promises forbid, and each makes it faster: it checks no
argument, takes over no expired claim, reruns nothing after a lost connection, and sets the bound of
a lock wait once for its connection, which would not survive a pooler.
"""
