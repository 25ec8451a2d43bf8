// Package file reads rows from files and writes them to files.
//
// The source reads every file of a directory, of a glob pattern, or a single
// one, line by line, and notices new files. Files should appear whole (written
// elsewhere on the same file system and moved into place) and not change
// afterwards. One that grows is read on, half a line waits for its rest, and a
// path that is given to another file is read anew, each with a warning; what
// would lose or repeat a line is an error (watch.go). Names that begin with "." or "_" are left alone. The position is
// the set of finished files and the place in the current one, so that a restart
// reads each row once.
//
// The sink writes part files that roll by size or time. A part becomes visible,
// by a rename, when every row in it is committed; until then it has a hidden
// name. The commit record knows how far each part is valid, and a restart cuts
// off what lies behind.
package file

import (
	"path/filepath"
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
)

// Connector returns the record of the connector.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "file",
		Doc: "Reads the lines of files, oldest file first, and writes part files. Files to be read should be moved into place whole and not change afterwards: those that grow are read on with a warning, and a change that would lose or repeat lines is an error. " +
			"Directories named key=value fill the columns called key, for formats that name their fields.",
		SourceOptions: []option.Option{
			{Name: "path", Required: true, Doc: "File, directory or glob pattern to read."},
			{
				Name: "max_file_age", Kind: option.Duration, Default: "168h",
				Doc: "Files older than the newest finished file by more than this are not read and are forgotten; 0s means no limit (default 168h, a week).",
			},
			{
				Name: "latest_first", Kind: option.Bool, Default: "false",
				Doc: "Whether of the files found together the newest is read first; max_file_age does not apply then (default false, oldest first).",
			},
			{Name: "max_files_per_trigger", Kind: option.Int, Min: 1, Doc: "Accepted for queries written for Spark and without effect: there are no triggers; see max_rows_per_second."},
			{
				Name: "clean_source", Kind: option.Enum, Default: "off", Values: []string{"off", "archive", "delete"},
				Doc: "What happens to a file once an epoch that finished it has committed: nothing, moved to source_archive_dir, or deleted; best effort (default off).",
			},
			{Name: "source_archive_dir", Doc: "Directory for clean_source = 'archive', on the same file system and outside the directory read; files keep their relative path."},
			{Name: "poll_interval", Kind: option.Duration, Default: "100ms", Doc: "How often the source looks for new files when it has read all (default 100ms)."},
			{Name: "max_record_size", Kind: option.Bytes, Default: "16MiB", Doc: "Longest record, in bytes; a longer one is a bad record (default 16MiB)."},
		},
		SinkOptions: []option.Option{
			{Name: "path", Required: true, Doc: "Directory to write part files to; it is made if need be."},
			{Name: "roll_size", Kind: option.Bytes, Default: "64MB", Doc: "Size in bytes at which a part file is closed and published (default 64MB)."},
			{Name: "roll_interval", Kind: option.Duration, Default: "60s", Doc: "Age at which a part file is closed and published (default 60s)."},
			{Name: "partition_by", Doc: "Columns, separated by commas, whose values become key=value directories instead of fields of the files."},
		},
		Metadata: []connectors.Metadata{
			{Name: "path", Type: messages.T(messages.String), Doc: "Path of the file, relative to the directory read."},
			{Name: "modified", Type: messages.T(messages.Timestamp), Doc: "Modification time of the file."},
			{Name: "offset", Type: messages.T(messages.BigInt), Doc: "Position of the record in the file, in bytes."},
		},
		Source: newSource,
		Sink:   newSink,
	}
}

// resolve makes a path from an option absolute, if there is a base.
func resolve(env connectors.Env, path string) string {
	if env.BaseDir == "" || filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(env.BaseDir, path)
}

// hidden tells names that are neither read nor counted.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }
