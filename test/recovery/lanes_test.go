package recovery

import (
	"fmt"
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
)

// lane is a query with its sink and what must come out of it.
type lane struct {
	name    string // of the query and the sink; in upper case of the output stream
	subject string
	sink    string // options of the sink
	options string // of the query
	query   string
	// byEpoch: rows are visible only after the commit of their epoch.
	byEpoch bool
	// check holds what is visible at the end against the whole input.
	check func(r *rig, in *input) problems
	// prefix holds what is visible against a committed cut.
	prefix func(r *rig, in *input, c *cut) problems
}

// sql is the lane's part of the script.
func (l *lane) sql(url string) string {
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
	return []lane{rowsLane(), windowsLane()}
}

// rowsLane is a stateless query whose rows are visible at once.
func rowsLane() lane {
	const name = "rows"
	return lane{
		name: name, subject: "rows.{part}", sink: "guarantee = 'exactly_once'", query: statelessSQL,
		check: func(r *rig, in *input) problems {
			return checkStateless(in, r.taps[name].read(), func(*row) bool { return true })
		},
		prefix: func(r *rig, in *input, c *cut) problems {
			return checkStateless(in, r.taps[name].read(), c.covers)
		},
	}
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
