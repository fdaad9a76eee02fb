-- What became of a message that has left the table, as far as the history remembers.
-- params: id, scope
-- columns: outcome, ended (microseconds)
SELECT outcome, ended FROM {history} WHERE job = :id AND scope = :scope
