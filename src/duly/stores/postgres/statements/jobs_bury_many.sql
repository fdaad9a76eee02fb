-- End many leases as dead, each under its own fence. A lease without a row in the answer was lost.
-- params: id, token (hexadecimal), epoch, burnt, rescued (arrays of text), error (an array of
--         bytes, empty to keep the last), now
-- columns: id
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
given AS (
    SELECT each.id::uuid AS id, decode(each.token, 'hex') AS token, each.epoch::bigint AS epoch,
           each.burnt::integer AS burnt, each.rescued::integer AS rescued,
           nullif(each.error, ''::bytea) AS error
      FROM unnest(:id::text[], :token::text[], :epoch::text[], :burnt::text[], :rescued::text[],
                  :error::bytea[])
           AS each (id, token, epoch, burnt, rescued, error)
)
UPDATE {jobs} AS job
   SET state = 'dead', dead_at = moment.now, attempts = job.attempts + given.burnt,
       rescues = job.rescues + given.rescued, token = NULL, worker = NULL, deadline = NULL,
       last_error = coalesce(given.error, job.last_error)
  FROM given, moment
 WHERE job.id = given.id AND job.state NOT IN ('ready', 'dead') AND job.token = given.token
   AND job.epoch = given.epoch
RETURNING job.id::text
