-- Delete the claim that guards the body of a forgotten event, unless another event that is still
-- known came with the same body since: then the guard belongs to that one.
-- params: scope, digest (of the guard), event (the digest of the forgotten one), now
-- columns: digest
DELETE FROM {claims}
 WHERE scope = :scope AND digest = :digest AND state = 'done'
   AND NOT EXISTS (
        SELECT 1 FROM {events} AS other
          JOIN {claims} AS known ON known.scope = other.scope AND known.digest = other.digest
         WHERE other.scope = :scope AND other.replay = :digest
           AND other.digest <> :event AND other.flags IN ('', 'ignored', 'too_old')
           AND coalesce(known.expires_at > :now, 1))
RETURNING digest
