package plan

import (
	"strings"

	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Error classes of analysis and of the check for streams. Those of expressions are
// in package expr.
const (
	ClassTableNotFound    = "TABLE_OR_VIEW_NOT_FOUND"
	ClassMissingGroupBy   = "MISSING_GROUP_BY"
	ClassMissingAggregate = "MISSING_AGGREGATION"
	ClassGroupByAggregate = "GROUP_BY_AGGREGATE"
	ClassGroupByPos       = "GROUP_BY_POS_OUT_OF_RANGE"
	ClassOrderByPos       = "ORDER_BY_POS_OUT_OF_RANGE"
	ClassNestedAggregate  = "NESTED_AGGREGATE_FUNCTION"
	ClassInvalidWhere     = "INVALID_WHERE_CONDITION"
	ClassNotBoolean       = "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"
	ClassNumColumns       = "NUM_COLUMNS_MISMATCH"
	ClassColumnTypes      = "INCOMPATIBLE_COLUMN_TYPE"
	ClassGenerator        = "UNSUPPORTED_GENERATOR"
	ClassAnalysis         = "ANALYSIS_ERROR"
	ClassIllegalArgument  = "ILLEGAL_ARGUMENT"
	ClassOutputMode       = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
	ClassSinkMode         = "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"
	ClassUnsupported      = "UNSUPPORTED_STREAMING_OPERATION"
	ClassOver             = "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING"
	ClassWatermarkTwice   = "WATERMARK_REDEFINED"
	ClassTwoEventTimes    = "MULTIPLE_EVENT_TIME_COLUMNS"
	ClassEventTimeType    = "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"
	// ClassNotYet is for what Spark runs and this engine does not yet.
	ClassNotYet = "NOT_YET_SUPPORTED"
	// ClassState is for a plan that does not fit a checkpoint.
	ClassState = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
	// ClassStateSchema is for a stateful operator whose keys changed, ClassStateValues
	// for one whose aggregates, window or mode did.
	ClassStateSchema = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
	ClassStateValues = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
)

func fail(class string, span sql.Span, msg string) *sql.Error {
	return &sql.Error{Class: class, Msg: msg, Span: span}
}

// hinted adds what to write instead.
func hinted(e *sql.Error, hint string) *sql.Error {
	e.Hint = hint
	return e
}

// notYet is the error for what the engine cannot run yet.
func notYet(span sql.Span, what string) *sql.Error {
	return fail(ClassNotYet, span, what+" cannot be run by this version yet")
}

// Errors are several faults as one error.
type Errors []*sql.Error

// Error returns the faults, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}
