-- Record one fact about this installation, replacing the last value.
-- params: name, value
-- columns: name
INSERT INTO {meta} (name, value)
VALUES (:name::text, :value::text)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING name
