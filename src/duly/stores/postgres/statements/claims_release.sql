-- Give a claim back: the next caller is first. The row stays, so that the epoch goes on growing.
-- No row back: a newer holder has it, or it is no longer in the state given.
-- params: scope, digest, token, state (held: give up a lease; done: undo an answer that was lost), now,
--         wait
-- columns: epoch
WITH {moment}
UPDATE {claims} AS claim
   SET state = 'held', token = NULL, result = NULL, lease_until = moment.now
  FROM moment
 WHERE claim.scope = :scope::text AND claim.digest = :digest::bytea
   AND claim.state = :state::text AND claim.token = :token::bytea
RETURNING claim.epoch
