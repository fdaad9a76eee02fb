-- Nobody needs to wake workers that were not seen for as long as they promised.
-- params: now
-- columns: id
UPDATE {workers} SET idle = 0 WHERE idle = 1 AND seen_at <= :now - lease RETURNING id
