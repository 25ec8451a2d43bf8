package plan

import (
	"testing"

	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// BenchmarkCompile plans and lowers a windowed aggregation from its text.
func BenchmarkCompile(b *testing.B) {
	cat := &testCatalog{}
	cat.add("bids", &Table{
		Name: "bids", Schema: schemaOf(b, "auction bigint, bidder bigint, price bigint, channel string, ts timestamp"), Streaming: true,
		Watermark: &WatermarkDecl{Column: "ts", Delay: 4e9},
	})
	const text = `SELECT auction, window.start AS start, window.end AS end, count(*) AS n, max(price) AS top
		FROM (SELECT * FROM bids WHERE channel <> 'x') b GROUP BY auction, window(ts, '10 seconds', '2 seconds') HAVING count(*) > 1`
	b.ReportAllocs()
	for b.Loop() {
		st, err := sql.ParseStatement(text)
		if err != nil {
			b.Fatal(err)
		}
		n, errs := FromSelect(st.(*sql.SelectStatement).Query, cat, Options{})
		if len(errs) > 0 {
			b.Fatal(errs[0])
		}
		if _, err := Compile(n, CompileConfig{Mode: Update, Parallelism: 4}); err != nil {
			b.Fatal(err)
		}
	}
}
