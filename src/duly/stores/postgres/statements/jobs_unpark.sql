-- Let jobs be taken at once that were parked because no worker knew their handlers: now one does.
-- params: names (JSON array), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {jobs} AS job
   SET run_at = moment.now, waiting = false, parked = false
  FROM moment
 WHERE job.state = 'ready' AND job.parked AND (job.waiting OR job.rescues > 0)
   AND job.name IN (SELECT value FROM json_array_elements_text(:names::json) AS each (value))
RETURNING job.id::text
