-- Note one fact about this installation, replacing what was known.
-- params: name, value
-- columns: name
INSERT INTO {meta} (name, value)
VALUES (:name::text, :value::text)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
RETURNING name
