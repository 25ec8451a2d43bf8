package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamd-io/streamd/runtime"
)

// metric describes one metric; the table below is the list of all.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func define(name, help string, kind prometheus.ValueType, labels ...string) metric {
	return metric{desc: prometheus.NewDesc("streamd_"+name, help, labels, nil), kind: kind}
}

// collector reads the session when it is scraped; it keeps nothing. Labels are
// fixed: query and operator, so the number of series is bounded by what runs.
type collector struct {
	session *runtime.Session
}

type metricSet struct {
	up, state, restarts, epoch, epochSeconds, epochAge      metric
	rowsIn, rowsOut, bytesIn, bad, blocked, late, stateRows metric
	epochBytes, stateBytes, watermark, lost, skewed         metric
}

func metrics() metricSet {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return metricSet{
		up:           define("query_running", "1 while the query runs, 0 otherwise.", gauge, "query"),
		state:        define("query_state", "1 for the state that the query is in, 0 for the others.", gauge, "query", "state"),
		restarts:     define("query_restarts_total", "Attempts that failed and were followed by another.", counter, "query"),
		epoch:        define("epoch", "Number of the last committed epoch.", gauge, "query"),
		epochSeconds: define("checkpoint_duration_seconds", "From injection to the durable commit record, last epoch.", gauge, "query"),
		epochAge:     define("checkpoint_age_seconds", "Time since the last committed epoch was injected.", gauge, "query"),
		epochBytes:   define("checkpoint_bytes", "Bytes written for the last epoch.", gauge, "query"),
		rowsIn:       define("operator_rows_in_total", "Rows that entered the operator in this attempt.", counter, "query", "operator"),
		rowsOut:      define("operator_rows_out_total", "Rows that left the operator's stage in this attempt.", counter, "query", "operator"),
		bytesIn:      define("source_bytes_total", "Payload bytes read in this attempt.", counter, "query", "operator"),
		bad:          define("bad_records_total", "Records kept out by on_error in this attempt.", counter, "query", "operator"),
		lost:         define("lost_records_total", "Records that the source could not read and will not get again, in this attempt.", counter, "query", "operator"),
		skewed:       define("skewed_rows_total", "Rows stamped too far in the future to move the watermark, in this attempt as of the last epoch.", counter, "query", "operator"),
		blocked:      define("backpressure_seconds_total", "Time the operator's stage waited for credit or its sink, summed over subtasks.", counter, "query", "operator"),
		late:         define("late_rows_total", "Rows behind the watermark, as of the last epoch.", counter, "query", "operator"),
		stateRows:    define("state_rows", "Entries held, as of the last epoch.", gauge, "query", "operator"),
		stateBytes:   define("state_bytes", "Bytes held, as of the last epoch.", gauge, "query", "operator"),
		watermark:    define("watermark_seconds", "Watermark of the operator's stage, seconds since 1970.", gauge, "query", "operator"),
	}
}

// Describe sends nothing: the set of series depends on the queries.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads all queries.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	m := metrics()
	for _, q := range c.session.Queries() {
		c.query(ch, &m, q)
	}
}

func (c *collector) query(ch chan<- prometheus.Metric, m *metricSet, q *runtime.Query) {
	send := func(x metric, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(x.desc, x.kind, v, append([]string{q.Name()}, labels...)...)
	}
	st := q.Status()
	running := 0.0
	if st.State == "running" {
		running = 1
	}
	send(m.up, running)
	for _, name := range runtime.States() {
		in := 0.0
		if st.State == name {
			in = 1
		}
		send(m.state, in, name)
	}
	send(m.restarts, float64(st.Restarts))
	if p := q.LastProgress(); p != nil {
		send(m.epoch, float64(p.BatchID))
		send(m.epochSeconds, float64(p.Checkpoint.DurationUs)/1e6)
		send(m.epochBytes, float64(p.Checkpoint.Bytes))
		if at, err := time.Parse(time.RFC3339, p.Timestamp); err == nil {
			send(m.epochAge, c.session.Clock().Now().Sub(at).Seconds())
		}
	}
	live := q.Metrics()
	if live == nil {
		return
	}
	for i := range live.Nodes {
		n := &live.Nodes[i]
		send(m.rowsIn, float64(n.RowsIn.Load()), n.Name)
		send(m.rowsOut, float64(n.RowsOut.Load()), n.Name)
		send(m.bytesIn, float64(n.BytesIn.Load()), n.Name)
		send(m.bad, float64(n.Bad.Load()), n.Name)
		send(m.lost, float64(n.Lost.Load()), n.Name)
		send(m.skewed, float64(n.Skewed.Load()), n.Name)
		send(m.blocked, time.Duration(n.BlockedNanos.Load()).Seconds(), n.Name)
		send(m.late, float64(n.Late.Load()), n.Name)
		send(m.stateRows, float64(n.StateRows.Load()), n.Name)
		send(m.stateBytes, float64(n.StateBytes.Load()), n.Name)
		if wm := n.Watermark.Load(); wm > 0 {
			send(m.watermark, float64(wm)/1e6, n.Name)
		}
	}
}
