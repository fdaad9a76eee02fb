-- oldest code: 6
-- The first delivery of an event is part of its row: it is written with the event, and always read
-- with it. Copies have rows of their own. Null: written by code of schema version 6, which gave the
-- first delivery such a row as well.
ALTER TABLE {events}
    ADD COLUMN outcome text,
    ADD COLUMN secret  text,
    ADD COLUMN remote  text;

-- Bodies are most of what is written. lz4 compresses them for a fraction of the processor time;
-- a server may have been built without it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings
                WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE {events} ALTER COLUMN body SET COMPRESSION lz4;
    END IF;
END
$$;

-- Fail the statement that calls it with an SQLSTATE of its own: plain SQL has no other way to.
CREATE OR REPLACE FUNCTION {schema}{prefix}fail(state text, reason text) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = reason;
END
$$;

-- A database may take this right from everybody by default.
GRANT EXECUTE ON FUNCTION {schema}{prefix}fail(text, text) TO PUBLIC;
