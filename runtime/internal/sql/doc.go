// Package sql is the front end of the SQL dialect: it turns text into a typed
// syntax tree and reports what is wrong with the text, with positions.
//
// The dialect is Spark's query language plus statements that declare sources,
// sinks and running queries. The package knows nothing about types, functions
// or catalogs: names are left as written and every rule that needs a schema
// belongs to the planner.
//
// Parsing takes three steps: Interpolate replaces ${NAME} references, the lexer
// cuts the text into tokens, and a recursive-descent parser (operator precedence
// for expressions) builds the tree. Format prints a tree so that parsing the
// output gives the same tree again.
//
// Offsets are byte offsets into the text handed to the parser. Syntax trees are
// not changed after parsing and may be read by several goroutines.
package sql
