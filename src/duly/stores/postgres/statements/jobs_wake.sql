-- Wake whoever waits for work, after a commit that made some.
-- params:
-- columns: woken
SELECT {woken}
