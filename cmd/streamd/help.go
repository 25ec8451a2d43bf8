package main

import "github.com/alecthomas/kong"

// helpOptions make the help of every command fit on a screen: variables are
// explained once instead of beside each flag.
func helpOptions() []kong.Option {
	return []kong.Option{
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.ValueFormatter(func(v *kong.Value) string { return v.Help }),
	}
}

const variables = "\n\nFlags can be set by variables: --log-level is STREAMD_LOG_LEVEL. Lists are separated by commas there, and STREAMD_SET by ;."

// Help shows examples.
func (*cli) Help() string {
	return `Examples:

  streamd demo              everything in one process, to look at
  streamd run queries.sql   run a file; the same command resumes` + variables
}

// Help shows examples.
func (*runCmd) Help() string {
	return `Examples:

  streamd run queries.sql --dir /var/lib/streamd --http 127.0.0.1:8080
  streamd run - --available-now < backfill.sql

Exit codes: 0 ended or drained, 1 a query failed, 2 usage or SQL error, 3 a checkpoint
does not fit its query, is damaged, or would repeat rows.` + variables
}

// Help shows examples.
func (*validateCmd) Help() string {
	return `Examples:

  streamd validate queries.sql
  streamd validate queries.sql --against /var/lib/streamd` + variables
}

// Help shows examples.
func (*explainCmd) Help() string {
	return `Examples:

  streamd explain queries.sql
  streamd explain - --set output_mode=update < queries.sql` + variables
}

// Help shows examples.
func (*checkpointsCmd) Help() string {
	return `Nothing in the directory is changed; a directory in use is refused, naming the process. Examples:

  streamd checkpoints ls /var/lib/streamd
  streamd checkpoints inspect /var/lib/streamd hot_items --epoch 117
  streamd checkpoints verify /var/lib/streamd --json

Exit codes: 0 fine, 2 usage or not readable, 3 verify has found damage or rows that do not add up.` + variables
}

// Help shows examples.
func (*checkpointsLsCmd) Help() string {
	return `Shows for each query the epochs it can go on from, newest first (run --restore-epoch). Examples:

  streamd checkpoints ls /var/lib/streamd
  streamd checkpoints ls /var/lib/streamd hot_items --json` + variables
}

// Help shows examples.
func (*checkpointsInspectCmd) Help() string {
	return `Examples:

  streamd checkpoints inspect /var/lib/streamd
  streamd checkpoints inspect /var/lib/streamd hot_items --epoch 117` + variables
}

// Help shows examples.
func (*checkpointsVerifyCmd) Help() string {
	return `Reads every segment of every retained epoch, compares it with the checksums in the commit record, and checks
that the rows of every operator add up. Prints one line per problem. Examples:

  streamd checkpoints verify /var/lib/streamd
  streamd checkpoints verify /var/lib/streamd hot_items

Exit codes: 0 whole, 2 usage or not readable, 3 problems were found.` + variables
}

// Help shows examples.
func (*demoCmd) Help() string {
	return `Examples:

  streamd demo
  streamd demo --rate 50000 --duration 30s --json

rows_in are the bids published, rows_unread those that a query has not read: a number that grows means that
this machine does not keep up with --rate. Latencies are null when nothing was measured.` + variables
}

// Help shows examples.
func (*versionCmd) Help() string {
	return `Examples:

  streamd version
  streamd version --json`
}
