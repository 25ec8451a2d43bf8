package expr

import (
	"strings"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// UserFunction describes a function written in Go.
type UserFunction struct {
	// Name is how SQL calls it, without regard to case.
	Name string
	Doc  string
	// Args are the types of the arguments; other types are cast to them where Spark's
	// implicit casts allow it.
	Args   []messages.Type
	Result messages.Type
	// NullAware functions are called for rows with NULL arguments too; for the others
	// such rows are NULL.
	NullAware bool
	// Volatile functions may give other results for the same arguments, so that they
	// are not computed in advance and the query is not replayable by its rows.
	Volatile bool
	// Call appends one value, or NULL, to out, which has the type Result. It runs on
	// the operator's goroutine for one row at a time; args and out are only valid
	// during the call. An error fails the row.
	Call func(args []UserArg, out *messages.Column) error
}

// UserArg is an argument: value Row of Column.
type UserArg struct {
	Column *messages.Column
	Row    int
}

// IsNull reports whether the argument is NULL.
func (a UserArg) IsNull() bool { return a.Column.IsNull(a.Row) }

// NewFunction returns a function for Registry.With.
func NewFunction(u UserFunction) (*Function, error) {
	if u.Name == "" || u.Call == nil {
		return nil, fault.New(fault.Config, "register function %q: a name and a Go function are needed", u.Name)
	}
	name := strings.ToLower(u.Name)
	if !isWord(name) {
		return nil, fault.New(fault.Config, "register function %q: the name must begin with a letter and have no blanks", u.Name)
	}
	types := make([]string, len(u.Args))
	for i, t := range u.Args {
		types[i] = t.String()
	}
	list := strings.Join(types, ", ")
	f := &Function{
		Name: name, Family: "user", Usage: name + "(" + list + ")", Signature: list + " -> " + u.Result.String(), Doc: u.Doc,
		lenient: u.NullAware, volatile: u.Volatile, fails: true, costly: true,
	}
	f.bind = u.bind
	f.make = func(*compiler, *FuncCall) (kernel, error) { return u.kernel(), nil }
	return f, nil
}

// kernel calls the function row by row.
func (u UserFunction) kernel() kernel {
	args := make([]UserArg, len(u.Args))
	var value messages.Column
	var failed error
	run := perRowValue(u.Result, func(x *exec) (*messages.Column, int) {
		if failed != nil {
			return nil, 0
		}
		for k, v := range x.args {
			args[k] = UserArg{v.col, x.i & v.mask}
		}
		value.Reset(u.Result)
		err := u.Call(args, &value)
		switch {
		case err != nil:
			failed = &operator.RowError{Row: x.i, Err: fault.WithClass(fault.Wrap(fault.BadRow, err, "function %s", u.Name), "FAILED_EXECUTE_UDF")}
		case value.Len() != 1:
			failed = internalError("function %s appended %d values, want 1", u.Name, value.Len())
		default:
			return &value, 0
		}
		return nil, 0
	})
	return func(x *exec) error {
		failed = nil
		if err := run(x); err != nil {
			return err
		}
		return failed
	}
}

func (u UserFunction) bind(b *binding) (Node, *sql.Error) {
	if err := b.count(len(u.Args), len(u.Args)); err != nil {
		return nil, err
	}
	for i, t := range u.Args {
		if _, ok := implicitCost(b.args[i], t); !ok {
			return nil, b.mismatch()
		}
		b.coerce(i, t)
	}
	return b.result(u.Result)
}
