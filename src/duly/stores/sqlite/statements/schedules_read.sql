-- The last slot of every schedule, and the time. Nothing is locked: schedules_advance names the
-- slot that it moves on from.
-- params: now
-- columns: scope (null where there is no schedule yet), name, slot (microseconds),
--          now (microseconds)
SELECT known.scope, known.name, known.slot, :now AS now
  FROM (SELECT 1) AS one
  LEFT JOIN {schedules} AS known ON true
