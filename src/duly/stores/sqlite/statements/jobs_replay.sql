-- Make dead jobs ready again with their counters at zero, each a gap later than the one before
-- it, and as if enqueued then: deadlines that count from enqueueing start again. Jobs that are no
-- longer dead are left out: another caller was quicker.
-- params: ids (JSON array), start (how many went before these), gap (microseconds), now
-- columns: id
UPDATE {jobs} AS job
   SET state = 'ready', run_at = :now + chosen.delay, created_at = :now + chosen.delay,
       waiting = chosen.delay > 0, parked = 0,
       attempts = 0, rescues = 0, dead_at = NULL, due_at = NULL, token = NULL,
       worker = NULL, deadline = NULL
  FROM (SELECT dead.id, :gap * (:start + row_number() OVER (ORDER BY each.key) - 1) AS delay
          FROM json_each(:ids) AS each
          JOIN {jobs} AS dead ON dead.id = each.value AND dead.state = 'dead') AS chosen
 WHERE job.id = chosen.id AND job.state = 'dead'
RETURNING id
