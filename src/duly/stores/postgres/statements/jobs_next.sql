-- How long until a job that waits, or comes back after a rescue, can be taken; and whether one
-- can be taken now. Waiting jobs are looked for in every queue: any worker moves them over.
-- params: queues (JSON array), now
-- columns: due, rescued (how often one came back that can be taken now, at most), next_in
--          (microseconds; null where nothing waits)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
queue AS (SELECT value AS name FROM json_array_elements_text(:queues::json) AS each (value))
SELECT EXISTS (SELECT FROM queue
                WHERE EXISTS (SELECT FROM {jobs} AS job
                               WHERE job.state = 'ready' AND NOT job.waiting AND job.rescues = 0
                                 AND job.queue = queue.name AND job.run_at <= moment.now)) AS due,
       (SELECT coalesce(max(job.rescues), 0)
          FROM {jobs} AS job JOIN queue ON queue.name = job.queue
         WHERE job.state = 'ready' AND job.rescues > 0 AND job.run_at <= moment.now) AS rescued,
       (extract(epoch FROM least(
           (SELECT min(job.run_at) FROM {jobs} AS job WHERE job.state = 'ready' AND job.waiting),
           (SELECT min(job.run_at) FROM {jobs} AS job JOIN queue ON queue.name = job.queue
             WHERE job.state = 'ready' AND job.rescues > 0)) - moment.now)
        * 1000000)::bigint AS next_in
  FROM moment
