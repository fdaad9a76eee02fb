-- The last slot of every schedule; and what time it is. Nothing is locked: whoever moves a schedule
-- on says from where.
-- params: now
-- columns: scope (null where there is no schedule yet), name, slot (microseconds),
--          now (microseconds)
SELECT known.scope, known.name, known.slot, :now AS now
  FROM (SELECT 1) AS one
  LEFT JOIN {schedules} AS known ON true
