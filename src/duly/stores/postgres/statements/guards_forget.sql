-- Delete the claim that guards the body of a forgotten event, unless another event that is still
-- known came with the same body since: then the guard belongs to that one.
-- params: scope, digest (of the guard), event (the digest of the forgotten one), now
-- columns: digest
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
)
DELETE FROM {claims} AS guard
 USING moment
 WHERE guard.scope = :scope::text AND guard.digest = :digest::bytea AND guard.state = 'done'
   AND NOT EXISTS (
        SELECT FROM {events} AS other
          JOIN {claims} AS known ON known.scope = other.scope AND known.digest = other.digest
         WHERE other.scope = :scope::text AND other.replay = :digest::bytea
           AND other.digest <> :event::bytea AND other.flags IN ('', 'ignored', 'too_old')
           AND coalesce(known.expires_at > moment.now, true))
RETURNING guard.digest
