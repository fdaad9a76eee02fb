-- The rows of one event, the newest first; there is more than one after a `forget`.
-- params: scope, digest
-- columns: id, type, flags, replay
SELECT id::text AS id, type, flags, replay
  FROM {events}
 WHERE scope = :scope::text AND digest = :digest::bytea
 ORDER BY received_at DESC, id DESC
