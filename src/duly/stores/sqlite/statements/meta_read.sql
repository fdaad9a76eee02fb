-- Read what duly records about this installation.
-- params: none
-- columns: name, value
SELECT name, value FROM {meta}
