-- Record one fact about this installation, replacing the last value.
-- params: name, value
-- columns: name
INSERT INTO {meta} (name, value)
VALUES (:name, :value)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING name
