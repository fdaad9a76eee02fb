-- Delete workers that were not seen for long and have no lease left.
-- params: age (microseconds), limit, now
-- columns: id
DELETE FROM {workers}
 WHERE id IN (SELECT worker.id FROM {workers} AS worker
               WHERE worker.seen_at <= :now - :age
                 AND NOT EXISTS (SELECT 1 FROM {jobs} AS job
                                  WHERE job.worker = worker.id AND job.state = 'leased')
               LIMIT :limit)
RETURNING id
