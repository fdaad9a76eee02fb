-- Make dead jobs ready again with their counters at zero, each a gap later than the one before
-- it, and as if enqueued then: deadlines that count from enqueueing start again. Jobs that are no
-- longer dead are left out: another caller was quicker. Rows are locked in one order, so that two
-- replays never deadlock.
-- params: ids (JSON array), start (how many went before these), gap (microseconds), now, wait
-- columns: id
WITH {moment},
wanted AS (
    SELECT each.id::uuid AS id, each.place
      FROM json_array_elements_text(:ids::json) WITH ORDINALITY AS each (id, place)
),
locked AS MATERIALIZED (
    SELECT job.id, wanted.place
      FROM {jobs} AS job
      JOIN wanted ON wanted.id = job.id
     CROSS JOIN moment
     WHERE job.state = 'dead'
     ORDER BY job.id
       FOR UPDATE OF job
),
chosen AS (
    SELECT id, :gap::bigint * (:start::bigint + row_number() OVER (ORDER BY place) - 1) AS delay
      FROM locked
)
UPDATE {jobs} AS job
   SET state = 'ready', run_at = moment.now + chosen.delay * interval '1 microsecond',
       created_at = moment.now + chosen.delay * interval '1 microsecond',
       waiting = chosen.delay > 0, parked = false, attempts = 0, rescues = 0, dead_at = NULL,
       due_at = NULL, token = NULL, worker = NULL, deadline = NULL
  FROM chosen, moment
 WHERE job.id = chosen.id AND job.state = 'dead'
RETURNING job.id::text, {woken}
