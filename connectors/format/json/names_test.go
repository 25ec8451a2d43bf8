package json_test

import (
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Readers of JSON keep one of two values with the same name, or refuse the object.
func TestColumnsOfTheSameNameAreRefused(t *testing.T) {
	fields := func(names ...string) *messages.Schema {
		s := &messages.Schema{}
		for _, n := range names {
			s.Fields = append(s.Fields, messages.Field{Name: n, Type: messages.T(messages.BigInt)})
		}
		return s
	}
	_, err := json.Format().Encoder(config(t, fields("a", "b", "a"), nil))
	if fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "two columns are called a") {
		t.Errorf("got error %v, want a config error", err)
	}
	if _, err := json.Format().Encoder(config(t, fields("a", "A"), nil)); err != nil {
		t.Errorf("names that differ in case: %v", err)
	}
}
