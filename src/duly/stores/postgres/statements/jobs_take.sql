-- Lease a bounded number of jobs of one queue: the most urgent, then the oldest. Rows that other
-- transactions have locked are skipped, never waited for. The epoch grows, the token is new for
-- each. The caller says where its last batch ended: what is done before that stays in the index
-- for as long as any transaction elsewhere could see it, and must not be walked through by every
-- batch.
-- params: queue, limit, worker, hold (microseconds until the lease ends in any case), urgency
--         (the priority to begin after), since (the time there, or null), last (the id, or null),
--         now
-- columns: id, scope, name, queue, event, payload, attempts, rescues, max_attempts, token, epoch,
--          created_at, priority, run_at, due_at, taken_at (times in microseconds)
WITH moment AS (
    SELECT coalesce(timestamptz 'epoch' + :now::bigint * interval '1 microsecond',
                    clock_timestamp()) AS now
),
chosen AS MATERIALIZED (
    SELECT job.id
      FROM {jobs} AS job, moment
     WHERE job.state = 'ready' AND NOT job.waiting AND job.rescues = 0
       AND job.queue = :queue::text AND job.run_at <= moment.now
       AND (job.priority, job.run_at, job.id) > (
            :urgency::smallint,
            coalesce(timestamptz 'epoch' + :since::bigint * interval '1 microsecond', '-infinity'),
            coalesce(:last::uuid, '00000000-0000-0000-0000-000000000000'))
     ORDER BY job.priority, job.run_at, job.id
     LIMIT :limit::bigint
       FOR UPDATE OF job SKIP LOCKED
)
UPDATE {jobs} AS job
   SET state = 'leased', due_at = coalesce(job.due_at, greatest(job.run_at, job.created_at)),
       epoch = job.epoch + 1, token = uuid_send(gen_random_uuid()),
       worker = :worker::uuid, parked = false,
       deadline = moment.now + :hold::bigint * interval '1 microsecond'
  FROM chosen, moment
 WHERE job.id = chosen.id
RETURNING job.id::text AS id, job.scope, job.name, job.queue, job.event::text AS event, job.payload,
          job.attempts, job.rescues, job.max_attempts, job.token, job.epoch,
          (extract(epoch FROM job.created_at) * 1000000)::bigint AS created_at, job.priority,
          (extract(epoch FROM job.run_at) * 1000000)::bigint AS run_at,
          (extract(epoch FROM job.due_at) * 1000000)::bigint AS due_at,
          (extract(epoch FROM moment.now) * 1000000)::bigint AS taken_at
