-- The sweep takes the operations that are not finished in the order of their ids.

CREATE INDEX operations_by_age ON operations (id) WHERE ended_at IS NULL;
