package nats

import (
	"strconv"
	"strings"
)

// deniedRow returns why the server has refused to take a row on l, nil if it has
// not. sent reports whether a row with a subject waits for its answer. What the
// server has refused besides, the deletion of a consumer for instance, is nothing
// that keeps rows from being acknowledged.
func (l *link) deniedRow(sent func(subject string) bool) error {
	err := l.refused()
	if err == nil {
		return nil
	}
	_, text, _ := strings.Cut(err.Error(), "Permissions Violation for Publish ")
	if subject, ok := quotedBehind(text, "to "); ok && sent(subject) {
		return err
	}
	if reply, ok := quotedBehind(text, "with Reply of "); ok && l.inbox != "" && strings.HasPrefix(reply, l.inbox) {
		return err
	}
	return nil
}

// quotedBehind returns the quoted text that follows prefix in s.
func quotedBehind(s, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return "", false
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", false
	}
	text, err := strconv.Unquote(quoted)
	return text, err == nil
}
