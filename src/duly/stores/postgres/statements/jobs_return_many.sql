-- End many leases and keep their jobs, each under its own fence: they can be taken again later. A
-- lease without a row in the answer was lost.
-- params: id, token (hexadecimal), epoch, delay (microseconds), burnt, rescued, parked (arrays of
--         text), error (an array of bytes, empty to keep the last), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT each.id::uuid AS id, decode(each.token, 'hex') AS token, each.epoch::bigint AS epoch,
           each.delay::bigint AS delay, each.burnt::integer AS burnt,
           each.rescued::integer AS rescued, each.parked::boolean AS parked,
           nullif(each.error, ''::bytea) AS error
      FROM unnest(:id::text[], :token::text[], :epoch::text[], :delay::text[], :burnt::text[],
                  :rescued::text[], :parked::text[], :error::bytea[])
           AS each (id, token, epoch, delay, burnt, rescued, parked, error)
)
UPDATE {jobs} AS job
   SET state = 'ready', run_at = moment.now + given.delay * interval '1 microsecond',
       attempts = job.attempts + given.burnt, rescues = job.rescues + given.rescued,
       waiting = given.delay > 0 AND job.rescues + given.rescued = 0,
       parked = given.parked, token = NULL, worker = NULL, deadline = NULL,
       last_error = coalesce(given.error, job.last_error)
  FROM given, moment
 WHERE job.id = given.id AND job.state NOT IN ('ready', 'dead') AND job.token = given.token
   AND job.epoch = given.epoch
RETURNING job.id::text
