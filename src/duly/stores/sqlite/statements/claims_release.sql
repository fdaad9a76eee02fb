-- Give a claim back: the next caller is first. The row stays, so that the epoch goes on growing.
-- No row back: a newer holder has it, or it is no longer in the state given.
-- params: scope, digest, token, state (held: give up a lease; done: undo an answer that was lost), now
-- columns: epoch
UPDATE {claims}
   SET state = 'held', token = NULL, result = NULL, lease_until = :now
 WHERE scope = :scope AND digest = :digest
   AND state = :state AND token = :token
RETURNING epoch
