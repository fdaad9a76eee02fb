-- oldest code: 6
-- The first delivery of an event is part of its row: it is written with the event, and always read
-- with it. Copies have rows of their own. Null: written by code of schema version 6, which gave the
-- first delivery such a row as well.
ALTER TABLE {events} ADD COLUMN outcome TEXT;

ALTER TABLE {events} ADD COLUMN secret TEXT;

ALTER TABLE {events} ADD COLUMN remote TEXT;
