-- Make dead messages ready again with their counters at zero, each a gap later than the one
-- before it, and due for the first time then: deadlines that count from that start again. Id and
-- key stay. Messages that are no longer dead are left out: another caller was quicker. Rows are
-- locked in one order, so that two replays never deadlock.
-- params: ids (JSON array), start (how many went before these), gap (microseconds), now, wait
-- columns: id
WITH {moment},
wanted AS (
    SELECT each.id::uuid AS id, each.place
      FROM json_array_elements_text(:ids::json) WITH ORDINALITY AS each (id, place)
),
locked AS MATERIALIZED (
    SELECT message.id, wanted.place
      FROM {outbox} AS message
      JOIN wanted ON wanted.id = message.id
     CROSS JOIN moment
     WHERE message.state = 'dead'
     ORDER BY message.id
       FOR UPDATE OF message
),
chosen AS (
    SELECT id, :gap::bigint * (:start::bigint + row_number() OVER (ORDER BY place) - 1) AS delay
      FROM locked
)
UPDATE {outbox} AS message
   SET state = 'ready', run_at = moment.now + chosen.delay * interval '1 microsecond',
       waiting = chosen.delay > 0, attempts = 0, rescues = 0, dead_at = NULL, due_at = NULL
  FROM chosen, moment
 WHERE message.id = chosen.id AND message.state = 'dead'
RETURNING message.id::text
