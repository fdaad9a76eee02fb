-- What is given up after a while, a message that cannot be sent or a job that waits for others,
-- counts from when it was first due: one that was meant for later must not be late before it began.
-- run_at moves on with every look, so the first lease notes it here. NULL: never leased since it was
-- made or replayed.
ALTER TABLE {jobs} ADD COLUMN due_at INTEGER;

ALTER TABLE {outbox} ADD COLUMN due_at INTEGER;
