-- Fragment, not a statement: wake whoever waits for work; says nothing where nobody does.
(SELECT pg_notify('{prefix}jobs', '')::text FROM {workers} WHERE idle LIMIT 1) AS woken
