-- Dead letters that are past their retention. Bodies are large, so their rows must not be read to find them.

CREATE INDEX dead_letters_by_created_at ON dead_letters (created_at);
