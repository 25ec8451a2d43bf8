package recovery

import (
	"fmt"
	"slices"
	"strings"
)

// sourceSQL is the head of the script; %[1]s is the server, %[2]d the
// parallelism.
const sourceSQL = `
SET parallelism = '%[2]d';
SET epoch_interval = '50ms';
SET idle_timeout = '10m';
CREATE SOURCE input (part INT, id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 300 MILLISECONDS)
WITH (connector = 'nats', url = '%[1]s', stream = 'INPUT', filters = 'in.0,in.1,in.2,in.3', format = 'json', timestamp_format = 'unix_us');
`

const (
	statelessSQL = "SELECT part, id, v * 2 AS v FROM input WHERE v % 3 <> 0"
	windowsSQL   = "SELECT unix_micros(window.start) AS start, k, count(*) AS n, sum(v) AS sum, max(v) AS max, collect_list(id) AS ids " +
		"FROM input GROUP BY k, window(ts, '500 milliseconds')"
	totalsSQL = "SELECT k, count(*) AS n, sum(v) AS sum FROM input GROUP BY k"
	perEpoch  = "guarantee = 'exactly_once', visibility = 'epoch'"
)

// lane is a query with its sink and what must come out of it.
type lane struct {
	name    string // of the query and the sink; in upper case of the output stream
	subject string
	bucket  string // instead of a stream
	dir     string // for part files, instead of a stream
	sink    string // options of the sink
	options string // of the query
	query   string
	// byEpoch: rows are visible only after the commit of their epoch.
	byEpoch bool
	// alone: nobody else may publish to the stream.
	alone bool
	// atomic: an epoch is published as one batch, its last message being the marker.
	atomic bool
	// check holds what is visible at the end against the whole input.
	check func(r *rig, in *input) problems
	// prefix holds what is visible against a committed cut.
	prefix func(r *rig, in *input, c *cut) problems
}

// streams reports whether the output is a stream.
func (l *lane) streams() bool { return l.bucket == "" && l.dir == "" }

// sql is the lane's part of the script.
func (l *lane) sql(url string) string {
	if l.dir != "" {
		return fmt.Sprintf("CREATE SINK %[1]s WITH (connector = 'file', path = '%[2]s', format = 'json', %[3]s);\n"+
			"CREATE QUERY %[1]s AS INSERT INTO %[1]s %[4]s;\n", l.name, l.dir, l.sink, l.query)
	}
	if l.bucket != "" {
		return fmt.Sprintf("CREATE SINK %[1]s WITH (connector = 'nats', url = '%[2]s', bucket = '%[3]s', key = '{k}', format = 'json', %[6]s);\n"+
			"CREATE QUERY %[1]s WITH (%[4]s) AS INSERT INTO %[1]s %[5]s;\n", l.name, url, l.bucket, l.options, l.query, l.sink)
	}
	sink := fmt.Sprintf("CREATE SINK %s WITH (connector = 'nats', url = '%s', stream = '%s', subject = '%s', format = 'json', %s);\n",
		l.name, url, strings.ToUpper(l.name), l.subject, l.sink)
	options := ""
	if l.options != "" {
		options = "WITH (" + l.options + ") "
	}
	return sink + fmt.Sprintf("CREATE QUERY %[1]s %[2]sAS INSERT INTO %[1]s %[3]s;\n", l.name, options, l.query)
}

// allLanes has a query of each sort.
func allLanes() []lane {
	return []lane{
		rowsLane(), windowsLane(), epochRowsLane(), epochWindowsLane(), transactionLane(), totalsLane(),
		bucketLane(), epochBucketLane(), tableLane(),
	}
}

// marker is where the markers of the lane's sink lie.
func (l *lane) marker() (stream, subject string) {
	name := l.name + ".sink:" + l.name
	if l.atomic {
		return strings.ToUpper(l.name), "streamd.transactions." + name
	}
	return "STREAMD_COMMITS", "streamd.commits." + name
}

func every(*row) bool { return true }

// rowsLane is a stateless query whose rows are visible at once.
func rowsLane() lane {
	const name = "rows"
	return lane{
		name: name, subject: "rows.{part}", sink: "guarantee = 'exactly_once'", query: statelessSQL,
		check: func(r *rig, in *input) problems { return checkStateless(in, r.taps[name].read(), every) },
		prefix: func(r *rig, in *input, c *cut) problems {
			return checkStateless(in, r.taps[name].read(), c.covers)
		},
	}
}

// exclusiveLane is the stateless query with each row fenced.
func exclusiveLane() lane {
	l := rowsLane()
	l.name, l.subject, l.sink, l.alone = "xrows", "xrows.{part}", "guarantee = 'exactly_once', exclusive = 'true'", true
	l.check = func(r *rig, in *input) problems { return checkStateless(in, r.taps[l.name].read(), every) }
	l.prefix = func(r *rig, in *input, c *cut) problems { return checkStateless(in, r.taps[l.name].read(), c.covers) }
	return l
}

// windowsLane is a windowed query whose final rows are visible at once.
func windowsLane() lane {
	const name = "windows"
	return lane{
		name: name, subject: "windows.{k}", sink: "guarantee = 'exactly_once'", query: windowsSQL,
		check: func(r *rig, in *input) problems {
			bad, _ := checkWindows(in, r.taps[name].read(), in.combined())
			return bad
		},
		prefix: func(r *rig, in *input, c *cut) problems {
			bad, _ := checkWindows(in, r.taps[name].read(), c.combined())
			return bad
		},
	}
}

// epochRowsLane is a stateless query whose rows are visible after their epoch.
func epochRowsLane() lane {
	const name = "erows"
	return lane{
		name: name, subject: "erows.{part}", sink: perEpoch, query: statelessSQL, byEpoch: true,
		check: func(r *rig, in *input) problems { return checkStateless(in, r.taps[name].read(), every) },
		prefix: func(r *rig, in *input, c *cut) problems {
			// What is visible has committed; the newest epoch may not be visible yet.
			return checkStateless(in.before(c), r.taps[name].read(), func(*row) bool { return false })
		},
	}
}

// epochWindowsLane is a windowed query whose final rows are visible after their
// epoch. What they count and what was dropped as late is all there is.
func epochWindowsLane() lane {
	const name = "ewindows"
	return lane{
		name: name, subject: "ewindows.{k}", sink: perEpoch, query: windowsSQL, byEpoch: true,
		check: func(r *rig, in *input) problems {
			bad, _ := checkWindows(in, r.taps[name].read(), in.combined())
			return bad
		},
		prefix: func(r *rig, in *input, c *cut) problems {
			in = in.before(c)
			bad, counted := checkWindows(in, r.taps[name].read(), noTime)
			if r.child.ended(0) && r.child.err == nil { // it has drained: all of it is visible
				open := 0
				for i := range in.rows {
					if x := &in.rows[i]; x.end() > c.combined() {
						open++
					}
				}
				if late := c.late(); counted+open+late != len(in.rows) {
					bad.add("unaccounted", "%d rows in closed windows, %d in open ones, %d late, of %d", counted, open, late, len(in.rows))
				}
			}
			return bad
		},
	}
}

// totalsLane is a query in update mode: the last version of a key in an epoch is
// visible after it.
func totalsLane() lane {
	const name = "totals"
	return lane{
		name: name, subject: "totals.{k}", sink: perEpoch, options: "output_mode = 'update'", query: totalsSQL, byEpoch: true,
		check: func(r *rig, in *input) problems { return checkTotals(r.taps[name].read(), totals(in, every)) },
		prefix: func(r *rig, in *input, c *cut) problems {
			last, bad := versions(r.taps[name].read())
			want := totals(in, c.covers)
			for k, g := range last {
				if w := want[k]; g.N > w.N || g.N == w.N && g != w {
					bad.add("not committed", "%+v, committed %+v", g, w)
				}
			}
			return bad
		},
	}
}

// transactionLane is a stateless query whose rows become visible an epoch at a
// time.
func transactionLane() lane {
	const name = "trows"
	return lane{
		name: name, subject: "trows.{part}", sink: "guarantee = 'transactional', max_batch_size = '200000'", query: statelessSQL, byEpoch: true, atomic: true,
		check: func(r *rig, in *input) problems { return checkStateless(in, r.taps[name].read(), every) },
		prefix: func(r *rig, in *input, c *cut) problems {
			// What is visible is what one of the records covers, no row less and none
			// more: an epoch begins when the one before the last is published.
			var bad problems
			out := r.taps[name].read()
			for _, at := range append([]*cut{c}, c.older...) {
				if bad = checkStateless(in.before(at), out, every); len(bad) == 0 {
					return nil
				}
			}
			if len(c.older) < 2 && len(out) == 0 { // nothing is published yet
				return nil
			}
			return bad
		},
	}
}

// bucketLane is a query in update mode into a key-value bucket: in the end each
// key has its last version.
func bucketLane() lane {
	const name, bucket = "bucket", "TOTALS_KV"
	return lane{
		name: name, bucket: bucket, sink: "guarantee = 'exactly_once'", options: "output_mode = 'update'", query: totalsSQL,
		check: checkBucket(bucket),
		prefix: func(r *rig, in *input, c *cut) problems {
			// No key is behind what has committed.
			bad := problems{}
			got := r.bucket(bucket, bad)
			for k, w := range totals(in, c.covers) {
				if g := got[k]; g.N < w.N {
					bad.add("behind", "%+v, committed %+v", g, w)
				}
			}
			return bad
		},
	}
}

// epochBucketLane is the same with values of committed epochs only.
func epochBucketLane() lane {
	const name, bucket = "ebucket", "EPOCHS_KV"
	return lane{
		name: name, bucket: bucket, sink: perEpoch, options: "output_mode = 'update'", query: totalsSQL, byEpoch: true,
		check: checkBucket(bucket),
		prefix: func(r *rig, in *input, c *cut) problems {
			// Each value is that of one of the records; the newest two may not be
			// written yet, or in part.
			bad := problems{}
			got := r.bucket(bucket, bad)
			var may []map[string]total
			for _, at := range append([]*cut{c}, c.older...) {
				may = append(may, totals(in, at.covers))
			}
			if len(may) < 3 {
				may = append(may, nil) // before the first epoch
			}
			for k := range may[0] {
				if !slices.ContainsFunc(may, func(m map[string]total) bool { return m[k] == got[k] }) {
					bad.add("of no epoch", "%+v, committed %+v", got[k], may[0][k])
				}
			}
			for k, g := range got {
				if may[0][k].N == 0 {
					bad.add("not committed", "%+v", g)
				}
			}
			return bad
		},
	}
}

// tableLane is a query in complete mode into a bucket: each start finds out which
// keys are there.
func tableLane() lane {
	const name, bucket = "board", "TABLE_KV"
	return lane{
		name: name, bucket: bucket, sink: "guarantee = 'exactly_once'", options: "output_mode = 'complete', emit_interval = '40ms'", query: totalsSQL,
		check: checkBucket(bucket),
		prefix: func(r *rig, in *input, _ *cut) problems {
			// Tables are made at other moments than epochs; no value is from nowhere.
			bad := problems{}
			all := totals(in, every)
			for k, g := range r.bucket(bucket, bad) {
				if g.N < 1 || g.N > all[k].N {
					bad.add("never put in", "%+v, of %+v", g, all[k])
				}
			}
			return bad
		},
	}
}

// checkBucket holds a bucket against the totals of the whole input.
func checkBucket(bucket string) func(*rig, *input) problems {
	return func(r *rig, in *input) problems {
		bad := problems{}
		compareTotals(r.bucket(bucket, bad), totals(in, every), bad)
		return bad
	}
}
