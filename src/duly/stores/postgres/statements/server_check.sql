-- What decides whether this server can be trusted with an acknowledgement, and whether a pooler
-- stands in between (then the process id is not the one the connection was greeted with).
-- params: none
-- columns: version, standby, fsync, synchronous_commit (whether each is on), process
SELECT current_setting('server_version_num')::int AS version,
       pg_is_in_recovery() AS standby,
       current_setting('fsync') <> 'off' AS fsync,
       current_setting('synchronous_commit') <> 'off' AS synchronous_commit,
       pg_backend_pid() AS process
