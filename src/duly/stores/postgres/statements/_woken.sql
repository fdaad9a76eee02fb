-- Fragment, not a statement: wake whoever waits for work; says nothing where nobody does.
-- params: none
(SELECT pg_notify('{prefix}jobs', '')::text FROM {workers} WHERE idle LIMIT 1) AS woken
