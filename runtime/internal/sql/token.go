package sql

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenWord
	tokenOp
	tokenQuoted // `name`
	tokenNumber
	tokenString
	tokenHex     // X'...'
	tokenIllegal // text is the message
)

// token is a piece of the source. For operators, text is the operator; for words
// the grammar knows, the word in upper case; for other words it is empty.
type token struct {
	text  string
	start int
	end   int
	kind  tokenKind
}

func (t token) span() Span { return Span{Start: t.start, End: t.end} }

// is reports whether the token is the given operator or keyword.
func (t token) is(text string) bool {
	return t.text == text && (t.kind == tokenWord || t.kind == tokenOp)
}

// reservedWords cannot be names unless in back quotes. The list is short on
// purpose: words such as window, start, end, timestamp, date, value, key, source,
// sink and query are ordinary names, and the parser tells them from keywords by
// their place.
const reservedWords = `AND AS BETWEEN CASE CREATE CROSS DISTINCT DROP ELSE EXCEPT EXISTS FALSE FROM FULL
GROUP HAVING ILIKE IN INNER INSERT INTERSECT INTO IS JOIN LATERAL LEFT LIKE LIMIT MINUS NATURAL
NOT NULL ON OR ORDER RIGHT RLIKE SELECT THEN TRUE UNION USING VALUES WHEN WHERE WITH`

// otherWords have a meaning in some place only.
const otherWords = `ALL ANTI ANY ARRAY ASC AT BIGINT BINARY BOOLEAN BOTH BUCKET BY BYTE CACHE CAST CHAR CHARACTER
CLUSTER COLUMNS COMMENT CUBE CURRENT CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME CURRENT_USER DATE DAY DEC
DECIMAL DELAY DESC DESCRIBE DISTRIBUTE DIV DOUBLE END ESCAPE EXPLAIN EXTENDED EXTRACT FILTER FIRST FLOAT
FOLLOWING FOR FUNCTION FUNCTIONS GLOBAL GROUPING HOUR IF IGNORE INT INTEGER INTERVAL LAST LEADING LOCAL
LOCALTIMESTAMP LONG MAP METADATA MINUTE MONTH NULLS NUMERIC OF OFFSET OPTIONS OUT OUTER OVER OVERLAY OVERWRITE
PARTITION PERCENT PIVOT PLACING POSITION PRECEDING QUALIFY QUERIES QUERY RANGE REAL REGEXP REPLACE RESPECT ROLLUP ROW
ROWS SECOND SEMI SET SETS SHORT SHOW SINK SINKS SMALLINT SOME SORT SOURCE SOURCES STREAM STRING STRUCT
SUBSTR SUBSTRING TABLE TABLES TABLESAMPLE TEMP TEMPORARY TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ
TINYINT TO TRAILING TRIM TRY_CAST UNBOUNDED UNKNOWN UNPIVOT VARCHAR VIEW VIEWS VOID WATERMARK WINDOW YEAR ZONE`

// statementWords begin a statement.
const statementWords = `SELECT WITH VALUES CREATE INSERT SET EXPLAIN SHOW DESCRIBE DESC DROP`

// clauseWords may follow a complete part of a query; they are what a misspelt
// word in that place is compared with.
const clauseWords = `FROM WHERE GROUP HAVING ORDER LIMIT OFFSET UNION INTERSECT EXCEPT JOIN INNER LEFT RIGHT FULL CROSS LATERAL ON USING AS AND OR WATERMARK WITH BETWEEN LIKE BY WHEN THEN ELSE END OVER FILTER`
