-- Put the caller's own bound on lock waits back.
-- params: before
-- columns: bound
SELECT set_config('lock_timeout', :before::text, true) AS bound
