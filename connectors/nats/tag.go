package nats

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/messages"
)

// sinkTag returns the header that tells the rows of one sink from those of others:
// query, slash, sink, at sign, incarnation. The first slash is the one behind the
// query, the last at sign the one before the incarnation, whatever else the names
// hold.
func sinkTag(query, sink string, incarnation messages.ID128) string {
	return fmt.Sprintf("%s/%s@%016x", strings.ReplaceAll(escaped(query), "/", "%2F"), escaped(sink), incarnation.Hi)
}

// tagName returns the part of a tag that all incarnations of a sink have in common.
func tagName(tag string) string {
	if at := strings.LastIndexByte(tag, '@'); at >= 0 {
		return tag[:at]
	}
	return ""
}
