-- Make dead messages ready again with their counters at zero, each a gap later than the one
-- before it, and due for the first time then: deadlines that count from that start again. Id and
-- key stay. Messages that are no longer dead are left out: another caller was quicker. Rows are
-- locked in one order, so that two replays never deadlock.
-- params: ids (JSON array), start (how many went before these), gap (microseconds), now
-- columns: id
WITH wanted AS (
    SELECT message.id,
           :gap * (:start + row_number() OVER (ORDER BY each.key) - 1) AS delay
      FROM json_each(:ids) AS each
      JOIN {outbox} AS message ON message.id = each.value
     WHERE message.state = 'dead'
)
UPDATE {outbox} AS message
   SET state = 'ready', run_at = :now + wanted.delay, waiting = wanted.delay > 0, attempts = 0,
       rescues = 0, dead_at = NULL, due_at = NULL
  FROM wanted
 WHERE message.id = wanted.id AND message.state = 'dead'
RETURNING id
