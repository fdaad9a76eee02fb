-- Bound lock waits until the setting is restored, and say what it was.
-- params: wait
-- columns: before
WITH setting AS MATERIALIZED (SELECT current_setting('lock_timeout') AS before)
SELECT setting.before, set_config('lock_timeout', :wait::text, true) AS bound FROM setting
