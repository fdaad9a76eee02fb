-- Read everything duly knows about itself.
-- params: none
-- columns: name, value
SELECT name, value FROM {meta}
