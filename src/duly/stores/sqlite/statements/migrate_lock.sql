-- One migrator at a time. BEGIN IMMEDIATE has already taken the only write lock.
-- params: none
-- columns: locked
SELECT 1 AS locked
