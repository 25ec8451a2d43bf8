package plan

import (
	"fmt"
	"strings"
)

// step is one node of the graph, for EXPLAIN.
type step struct {
	name        string // of the graph's node
	text        string // what it does, "" if the name says it
	parallelism int    // 0: that of the input, for a source its partitions
	in          []stepInput
	readers     int
}

// stepInput is an edge to a step; keys are the columns of a keyed one.
type stepInput struct {
	from *step
	keys []string
	side bool // what from leaves out
}

func (c *compiler) step(name, text string, parallelism int, in ...stepInput) *step {
	s := &step{name: name, text: text, parallelism: parallelism, in: in}
	for _, i := range in {
		if !i.side {
			i.from.readers++
		}
	}
	c.out.steps = append(c.out.steps, s)
	return s
}

// Explain is the text of EXPLAIN: the plan as written (with extended) and as it
// runs, the stages, what a replay does, and how rows get to the sink.
func (c *Compiled) Explain(extended bool) string {
	var b strings.Builder
	section := func(title, text string) {
		b.WriteString(title + "\n")
		for line := range strings.Lines(text) {
			b.WriteString("  " + line)
		}
		b.WriteByte('\n')
	}
	if extended {
		section("Logical plan", Format(c.logical))
	}
	section("Plan", Format(c.optimized))
	section("Stages", c.stages())
	section("Result", c.result())
	section("Replay verdict", c.Verdict.String()+"\n")
	sink := strings.TrimPrefix(c.SinkNode, "sink:")
	if c.config.Sink.Sink == nil {
		section("Sink "+sink, "not known\n")
	} else {
		section("Sink "+sink, c.Delivery.String()+"\n")
	}
	c.explainSides(section)
	return strings.TrimSuffix(b.String(), "\n")
}

// result describes what comes out.
func (c *Compiled) result() string {
	s := "mode: " + c.config.Mode.String()
	if d := c.config.emitInterval(); d > 0 {
		s += ", emitted every " + d.String()
	}
	s += "\ncolumns: " + c.Schema.String() + "\n"
	switch {
	case c.UpdateKey == nil && c.config.Mode == Update && topAggregation(c.optimized) != nil:
		s += "key: none, as not every grouping column is in the result\n"
	case c.UpdateKey != nil && len(c.UpdateKey) == 0:
		s += "key: one row for everything\n"
	case c.UpdateKey != nil:
		var names []string
		for _, i := range c.UpdateKey {
			names = append(names, c.Schema.Fields[i].Name)
		}
		s += "key: " + strings.Join(names, ", ") + "\n"
	}
	return s
}

// stages cuts the steps as the engine does: a step joins that before it if it is
// its only reader, reads nothing else and runs as many times.
func (c *Compiled) stages() string {
	stage := map[*step]int{}
	var lists [][]*step
	for _, s := range c.steps {
		if len(s.in) == 1 && s.in[0].keys == nil && !s.in[0].side && s.in[0].from.readers == 1 {
			at := stage[s.in[0].from]
			if head := lists[at][0]; s.parallelism == 0 || s.parallelism == head.parallelism {
				stage[s] = at
				lists[at] = append(lists[at], s)
				continue
			}
		}
		if s.parallelism == 0 && len(s.in) > 0 {
			s.parallelism = lists[stage[s.in[0].from]][0].parallelism
		}
		stage[s] = len(lists)
		lists = append(lists, []*step{s})
	}
	var b strings.Builder
	for i, l := range lists {
		fmt.Fprintf(&b, "%d. %s%s\n", i+1, howMany(l[0].parallelism), origin(l[0], stage))
		for _, s := range l {
			b.WriteString("   " + s.name)
			if s.text != "" {
				b.WriteString(": " + s.text)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func howMany(parallelism int) string {
	if parallelism == 0 {
		return "one subtask per partition"
	}
	return plural(parallelism, "subtask")
}

// origin says where the rows of a stage come from.
func origin(s *step, stage map[*step]int) string {
	if len(s.in) == 0 {
		return ""
	}
	var from []string
	for _, in := range s.in {
		from = append(from, itoa(stage[in.from]+1))
	}
	text := ", rows from " + strings.Join(from, ", ")
	if keys := s.in[0].keys; keys != nil {
		text += " by " + strings.Join(keys, ", ")
	}
	return text
}

// detail is describe without the kind of step.
func detail(n Node) string {
	if _, rest, ok := strings.Cut(describe(n), ": "); ok {
		return rest
	}
	return ""
}
