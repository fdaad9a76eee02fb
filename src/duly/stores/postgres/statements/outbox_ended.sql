-- What became of a message that has left the table, as far as the history remembers.
-- params: id, scope
-- columns: outcome, ended (microseconds)
SELECT outcome, (extract(epoch FROM ended) * 1000000)::bigint AS ended
  FROM {history}
 WHERE job = :id::uuid AND scope = :scope::text
