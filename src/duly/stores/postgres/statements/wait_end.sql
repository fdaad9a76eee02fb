-- Put back the bound on lock waits that was set before duly's last statement with one of its own.
-- params: none
-- columns: bound
SELECT set_config('lock_timeout', current_setting('duly.lock_timeout'), true) AS bound
