-- Fragment, not a statement: notify the workers, if one of them is idle.
-- params: none
(SELECT pg_notify('{prefix}jobs', '')::text FROM {workers} WHERE idle LIMIT 1) AS woken
