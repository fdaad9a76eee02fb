-- Whether the schema that holds the tables has yet to be made. SQLite has none.
-- params: none
-- columns: missing
SELECT 0 AS missing
