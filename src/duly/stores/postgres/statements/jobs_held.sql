-- The leases of a worker, as the database knows them.
-- params: worker
-- columns: id, token, epoch
SELECT id::text AS id, token, epoch FROM {jobs} WHERE worker = :worker::uuid AND state = 'leased'
