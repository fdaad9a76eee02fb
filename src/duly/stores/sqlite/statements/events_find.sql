-- The rows of one event, the newest first; there is more than one after a `forget`.
-- params: scope, digest
-- columns: id, type, flags, replay
SELECT id, type, flags, replay
  FROM {events}
 WHERE scope = :scope AND digest = :digest
 ORDER BY received_at DESC, id DESC
