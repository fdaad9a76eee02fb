-- Let jobs be taken at once that were parked because no worker knew their handlers: now one does.
-- params: names (JSON array), now
-- columns: id
UPDATE {jobs}
   SET run_at = :now, waiting = 0, parked = 0
 WHERE state = 'ready' AND parked = 1 AND (waiting = 1 OR rescues > 0)
   AND name IN (SELECT value FROM json_each(:names))
RETURNING id
