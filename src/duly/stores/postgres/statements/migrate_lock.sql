-- One migrator at a time: the lock goes with the transaction, so it also works through a pooler.
-- params: table, now, wait
-- columns: locked
WITH {moment}
SELECT true AS locked
  FROM moment, LATERAL (SELECT pg_advisory_xact_lock(hashtextextended(:table::text, 0))) AS waited
