-- Whether duly's own table is there, that is, whether any migration has been applied.
-- params: table (its quoted name, as the search path or the schema finds it)
-- columns: found
SELECT count(to_regclass(:table::text)) AS found
