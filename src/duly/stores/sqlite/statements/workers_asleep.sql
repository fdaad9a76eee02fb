-- Clear the idle mark of workers that were not seen within their lease: nothing needs to wake
-- them.
-- params: now
-- columns: id
UPDATE {workers} SET idle = 0 WHERE idle = 1 AND seen_at <= :now - lease RETURNING id
