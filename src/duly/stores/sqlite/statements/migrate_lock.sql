-- One migrator at a time. BEGIN IMMEDIATE has already taken the only write lock.
-- params: table
-- columns: locked
SELECT 1 AS locked
