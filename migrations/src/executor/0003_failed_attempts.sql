-- The failed attempts of a step: the newest, as JSON.

ALTER TABLE steps ADD COLUMN failed_attempts text;
