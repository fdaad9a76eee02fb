-- The last slot of a schedule that was enqueued, locked; and what time it is.
-- params: scope, name, now
-- columns: slot (microseconds; null where there is none yet), now (microseconds)
SELECT known.slot, :now AS now
  FROM (SELECT 1) AS one
  LEFT JOIN {schedules} AS known ON known.scope = :scope AND known.name = :name
