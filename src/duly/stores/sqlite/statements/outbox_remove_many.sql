-- Remove messages whose end has just become rows of the history, in the same transaction.
-- params: each (JSON arrays: id)
-- columns: id
DELETE FROM {outbox} WHERE id IN (SELECT each.value ->> 0 FROM json_each(:each) AS each)
RETURNING id
