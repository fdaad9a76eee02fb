-- Record the outcome of an effect, or that it is intended once more, if the job's lease still
-- holds. No row back: it does not, or the effect is done already.
-- params: scope, digest, name, state, result, job, token, epoch, now
-- columns: name
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
UPDATE {effects} AS effect
   SET state = :state::text, result = :result::bytea, at = moment.now, epoch = :epoch::bigint
  FROM moment,
       (SELECT FROM {jobs}
         WHERE id = :job::uuid AND state = 'leased' AND token = :token::bytea
           AND epoch = :epoch::bigint
           FOR NO KEY UPDATE) AS held
 WHERE effect.scope = :scope::text AND effect.digest = :digest::bytea
   AND effect.name = :name::text AND effect.state <> 'done'
RETURNING effect.name
