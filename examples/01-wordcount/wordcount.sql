-- Counts the words typed into `nc -lk 9999` and prints the whole table whenever
-- it changes:  nc -lk 9999  in one terminal,  streamd run wordcount.sql  in another.
CREATE SOURCE lines (value STRING) WITH (connector = 'socket', host = 'localhost', port = '9999');

CREATE QUERY wordcount WITH (output_mode = 'complete') AS
SELECT word, count(*) AS count
FROM (SELECT explode(split(value, ' ')) AS word FROM lines) AS words
GROUP BY word;
