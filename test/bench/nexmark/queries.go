package nexmark

// Query is one query of the benchmark.
type Query struct {
	Name string
	Doc  string
	Mode string // output mode
	SQL  string // a SELECT over Views
}

// Views define the tables of the queries over the stream events.
const Views = `
CREATE VIEW bid AS SELECT bid.auction AS auction, bid.bidder AS bidder, bid.price AS price, bid.channel AS channel, bid.url AS url, dateTime, bid.extra AS extra
  FROM events WHERE event_type = 2;
`

// Queries are those the engine can express. Joins, exact distinct counts and
// sessions are not among them. The original of q5 joins two aggregates; here the
// second one collects the first. q5a is its inner aggregate.
func Queries() []Query {
	return []Query{
		{"q0", "pass through", "append", "SELECT auction, bidder, price, dateTime, extra FROM bid"},
		{"q1", "dollars to euros", "append", "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23,3)) AS price, dateTime, extra FROM bid"},
		{"q2", "selection", "append", "SELECT auction, price FROM bid WHERE auction % 123 = 0"},
		{
			"q5a", "bids per auction, last 10 s, every 2 s", "append",
			"SELECT auction, window.start AS start, count(*) AS num FROM bid GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')",
		},
		{
			"q5", "auctions with the most bids, last 10 s, every 2 s", "append",
			`SELECT start, item.auction AS auction, item.num AS num FROM (
  SELECT start, explode(filter(items, x -> x.num = top)) AS item FROM (
    SELECT window.start AS start, max(num) AS top, collect_list(named_struct('auction', auction, 'num', num)) AS items FROM (
      SELECT auction, window, count(*) AS num FROM bid GROUP BY auction, window(dateTime, '10 seconds', '2 seconds'))
    GROUP BY window))`,
		},
		{
			"q12", "bids per bidder in 10 s of processing time", "update",
			"SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime FROM bid GROUP BY bidder, window(current_timestamp(), '10 seconds')",
		},
		{
			"q14", "calculation", "append",
			`SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
  dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000`,
		},
		{
			"q17", "statistics per auction and day", "update",
			`SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day, count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids, count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids, count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, date_format(dateTime, 'yyyy-MM-dd')`,
		},
		{
			"q21", "channel number", "append",
			`SELECT auction, bidder, price, channel,
  CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM bid WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''`,
		},
		{
			"q22", "directories of the URL", "append",
			"SELECT auction, bidder, price, channel, split(url, '/')[3] AS dir1, split(url, '/')[4] AS dir2, split(url, '/')[5] AS dir3 FROM bid",
		},
	}
}
