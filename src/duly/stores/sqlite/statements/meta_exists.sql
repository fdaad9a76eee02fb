-- Whether duly's own table is there, that is, whether any migration has been applied.
-- params: table (its bare name)
-- columns: found
SELECT count(*) AS found FROM sqlite_master WHERE type = 'table' AND name = :table
