-- Whether the schema that holds the tables has yet to be made. Asked first, because
-- CREATE SCHEMA IF NOT EXISTS needs the right to create one even where it exists.
-- params: schema
-- columns: missing
SELECT NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = :schema::text) AS missing
