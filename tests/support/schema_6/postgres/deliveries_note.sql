-- Record one more delivery of a known event, at the time it came, unless enough are recorded
-- already.
-- params: scope, digest, at, outcome, secret, remote, most
-- columns: event
INSERT INTO {deliveries} (event, at, outcome, secret, remote)
SELECT known.id, timestamptz 'epoch' + :at::bigint * interval '1 microsecond', :outcome::text,
       :secret::text, :remote::text
  FROM (SELECT id
          FROM {events}
         WHERE scope = :scope::text AND digest = :digest::bytea AND flags NOT LIKE 'conflict%'
         ORDER BY received_at DESC, id DESC
         LIMIT 1) AS known
 WHERE (SELECT count(*) FROM {deliveries} WHERE event = known.id) < :most::bigint
RETURNING event::text
