-- How long until a job that waits, or comes back after a rescue, can be taken; and whether one
-- can be taken now. Waiting jobs are looked for in every queue: any worker moves them over.
-- params: queues (JSON array), now
-- columns: due, rescued (how often one came back that can be taken now, at most), next_in
--          (microseconds; null where nothing waits)
SELECT EXISTS (SELECT 1 FROM json_each(:queues) AS queue
                WHERE EXISTS (SELECT 1 FROM {jobs} AS job
                               WHERE job.state = 'ready' AND job.waiting = 0 AND job.rescues = 0
                                 AND job.queue = queue.value AND job.run_at <= :now)) AS due,
       (SELECT coalesce(max(job.rescues), 0) FROM {jobs} AS job
         WHERE job.state = 'ready' AND job.rescues > 0 AND job.run_at <= :now
           AND job.queue IN (SELECT value FROM json_each(:queues))) AS rescued,
       (SELECT min(run_at)
          FROM (SELECT min(job.run_at) AS run_at FROM {jobs} AS job
                 WHERE job.state = 'ready' AND job.waiting = 1
                 UNION ALL
                SELECT min(job.run_at) FROM {jobs} AS job
                 WHERE job.state = 'ready' AND job.rescues > 0
                   AND job.queue IN (SELECT value FROM json_each(:queues)))) - :now AS next_in
