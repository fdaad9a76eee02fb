-- Take over a key whose window is over, for a new job, unless the old job still has work to do.
-- No row back: it has, or another caller was quicker.
-- params: scope, digest, before (the token that was read), holder (the id of the old job), token,
--         ttl, now
-- columns: digest
UPDATE {claims}
   SET token = :token, epoch = epoch + 1, first_seen = :now, expires_at = :now + :ttl
 WHERE scope = :scope AND digest = :digest
   AND token = :before AND expires_at <= :now
   AND NOT EXISTS (SELECT 1 FROM {jobs} AS job
                    WHERE job.id = :holder AND job.state IN ('ready', 'leased'))
RETURNING digest
