-- End many leases at once, each under its own fence. A lease without a row in the answer was lost.
-- params: each (JSON arrays: id, token in hexadecimal, epoch, outcome, ran), now
-- columns: id
INSERT INTO {history} (job, scope, name, event, outcome, started, ended, attempts)
SELECT job.id, job.scope, job.name, job.event, each.value ->> 3, :now - (each.value ->> 4), :now,
       job.attempts + 1
  FROM json_each(:each) AS each
  JOIN {jobs} AS job ON job.id = each.value ->> 0
 WHERE job.state = 'leased' AND lower(hex(job.token)) = each.value ->> 1
   AND job.epoch = CAST(each.value ->> 2 AS INTEGER)
RETURNING job AS id
