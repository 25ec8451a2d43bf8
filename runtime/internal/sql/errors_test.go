package sql

import (
	"errors"
	"strings"
	"testing"
)

func TestRenderKeepsTabsAndCountsWideCharacters(t *testing.T) {
	src := "SELECT 1;\n\tSELECT\t'中文' = ) FROM t\r\n"
	_, errs := ParseScript(src)
	if len(errs) != 1 {
		t.Fatalf("got %d errors, want 1", len(errs))
	}
	got := Render("dir/x.sql", src, errs[0])
	want := "dir/x.sql:2:16: PARSE_SYNTAX_ERROR: expected an expression, found \")\"\n" +
		"  \tSELECT\t'中文' = ) FROM t\n" +
		"  \t      \t         ^\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRenderShortensLongLines(t *testing.T) {
	src := "SELECT " + strings.Repeat("a, ", 1000) + ") " + strings.Repeat("b, ", 1000)
	_, errs := ParseScript(src)
	for line := range strings.Lines(Render("x", src, errs[0])) {
		if len(line) > 300 {
			t.Errorf("line of %d bytes: %.60s...", len(line), line)
		}
	}
}

func TestRenderHidesControlCharacters(t *testing.T) {
	src := "SELECT '\x1b[31m' )"
	_, errs := ParseScript(src)
	if got := Render("x", src, errs[0]); strings.Contains(got, "\x1b") {
		t.Errorf("escape character in %q", got)
	}
}

func TestRenderTakesSpansOutsideOfTheText(t *testing.T) {
	for _, span := range []Span{{-5, -1}, {3, 100}, {100, 200}, {2, 1}} {
		Render("x", "ab\nc", &Error{Class: ClassSyntax, Msg: "m", Span: span})
	}
}

func TestPosition(t *testing.T) {
	src := "aé\n中b"
	tests := []struct{ offset, line, column int }{{0, 1, 1}, {1, 1, 2}, {3, 1, 3}, {4, 2, 1}, {7, 2, 2}, {8, 2, 3}, {99, 2, 3}, {-1, 1, 1}}
	for _, tt := range tests {
		line, column := Position(src, tt.offset)
		if line != tt.line || column != tt.column {
			t.Errorf("offset %d: got %d:%d, want %d:%d", tt.offset, line, column, tt.line, tt.column)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Run("deep nesting of every kind is refused", func(t *testing.T) {
		const n = 4000
		rep := strings.Repeat
		for _, src := range []string{
			"SELECT " + rep("(", n) + "1" + rep(")", n),
			"SELECT " + rep("NOT ", n) + "a",
			"SELECT " + rep("- ", n) + "a",
			"SELECT " + rep("f(", n) + "1" + rep(")", n),
			"SELECT " + rep("CASE WHEN ", n),
			"SELECT " + rep("x[", n),
			"SELECT f(" + rep("x -> ", n) + "1)",
			"SELECT * FROM " + rep("(", n) + "SELECT 1" + rep(")", n),
			"SELECT * FROM " + rep("(SELECT * FROM ", n),
			rep("(", n) + "SELECT 1" + rep(")", n),
			rep("EXPLAIN ", n) + "SELECT 1",
			"SELECT CAST(a AS " + rep("array<", n) + "int" + rep(">", n) + ")",
		} {
			_, err := ParseStatement(src)
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Msg, "nested deeper than 200") && !strings.HasPrefix(src, "EXPLAIN") || err == nil {
				t.Errorf("%.30q: got %v, want the depth limit", src, err)
			}
		}
	})
	t.Run("long flat statements are accepted", func(t *testing.T) {
		src := "SELECT 1" + strings.Repeat(" + 1", 10000) + " FROM t WHERE a = 1" + strings.Repeat(" AND a = 1", 2000)
		stmt, err := ParseStatement(src)
		if err != nil {
			t.Fatal(err)
		}
		checkPrinted(t, src, stmt)
	})
	t.Run("the size limit holds for one statement and not for the script", func(t *testing.T) {
		limits := Limits{StatementBytes: 20}
		stmts, errs := limits.ParseScript("SELECT 1; SELECT 2; SELECT 12345678901234; SELECT 3")
		if len(stmts) != 3 || len(errs) != 1 {
			t.Fatalf("got %d statements and errors %v, want 3 and 1", len(stmts), errs)
		}
		if got, want := errs[0].Msg, "statement has 21 bytes, the limit is 20"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("the default size limit is 64 KiB", func(t *testing.T) {
		_, err := ParseStatement("SELECT '" + strings.Repeat("x", 64<<10) + "'")
		if err == nil {
			t.Error("got no error")
		}
	})
}

func TestNearest(t *testing.T) {
	words := []string{"FROM", "WHERE", "GROUP", "output_mode", "outputs"}
	tests := []struct {
		word, want string
	}{
		{"FORM", "FROM"},
		{"form", "FROM"},
		{"whre", "WHERE"},
		{"GROPU", "GROUP"},
		{"WHEER", "WHERE"},
		{"RFOM", "FROM"},
		{"OFRM", "FROM"},
		{"outputMode", "output_mode"},
		{"output_mod", "output_mode"},
		{"b", ""},
		{"", ""},
		{"completely_else", ""},
		{strings.Repeat("x", 1000), ""},
	}
	for _, tt := range tests {
		got, ok := Nearest(tt.word, words)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("Nearest(%q) = %q, %t, want %q", tt.word, got, ok, tt.want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"flaw", "lawn", 2}, {"saturday", "sunday", 3}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestInterpolate(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"URL": "nats://h", "EMPTY": "", "REF": "${URL}"}[name]
		return v, ok
	}
	tests := []struct{ name, src, want, wantErr string }{
		{"text without references is kept", "SELECT '$' || $x", "SELECT '$' || $x", ""},
		{"a value is put in", "url = '${URL}'", "url = 'nats://h'", ""},
		{"a value is put in outside of strings", "LIMIT ${URL}", "LIMIT nats://h", ""},
		{"a default is used", "'${NONE:-nats://d:1}'", "'nats://d:1'", ""},
		{"a default is used for an empty value", "${EMPTY:-x}", "x", ""},
		{"an empty value is a value", "[${EMPTY}]", "[]", ""},
		{"an empty default is a default", "[${NONE:-}]", "[]", ""},
		{"values are not looked at again", "${REF}", "${URL}", ""},
		{"comments are kept", "a -- ${NONE}\n/* ${NONE} /* ${NONE} */ */ ${URL}", "a -- ${NONE}\n/* ${NONE} /* ${NONE} */ */ nats://h", ""},
		{"a comment sign in a string is no comment", "'--${URL}' '/*' ${URL}", "'--nats://h' '/*' nats://h", ""},
		{"escapes in strings do not end them", `'it\'s --${URL}'`, `'it\'s --nats://h'`, ""},
		{"doubled quotes do not end strings", `'it''s --${URL}'`, `'it''s --nats://h'`, ""},
		{"raw strings have no escapes", `r'\' -- ${NONE}`, `r'\' -- ${NONE}`, ""},
		{"a doubled dollar writes the reference", "'$${URL}'", "'${URL}'", ""},
		{"a missing variable is an error", "a ${NONE} b", "a  b", "variable NONE is not set"},
		{"a bad name is an error", "${a b}", "", "is not the name of a variable"},
		{"an open reference is an error", "a ${URL\nb", "a \nb", "not closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, errs := Interpolate(tt.src, lookup)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (len(errs) > 0) != (tt.wantErr != "") || len(errs) > 0 && !strings.Contains(errs[0].Msg, tt.wantErr) {
				t.Errorf("got errors %v, want %q", errs, tt.wantErr)
			}
		})
	}
}
