package sql

import "strings"

// maxKeywordLen is the length of the longest keyword.
const maxKeywordLen = 17

// wordClass says how far a word of the grammar is taken.
type wordClass struct {
	text     string
	reserved bool
}

// keywords maps upper-case words to their one shared string, so that looking up a
// word of the source allocates nothing. It is read only.
var keywords = keywordTable()

// statementWordList and clauseWordList are candidates for "did you mean" hints.
var (
	statementWordList = strings.Fields(statementWords)
	clauseWordList    = strings.Fields(clauseWords)
)

func keywordTable() map[string]wordClass {
	table := map[string]wordClass{}
	for _, w := range strings.Fields(otherWords) {
		table[w] = wordClass{text: w}
	}
	for _, w := range strings.Fields(reservedWords) {
		table[w] = wordClass{text: w, reserved: true}
	}
	return table
}

// keyword returns the entry of a word in any letter case; ok is false for words
// the grammar does not know.
func keyword(word string) (wordClass, bool) {
	if len(word) > maxKeywordLen {
		return wordClass{}, false
	}
	var upper [maxKeywordLen]byte
	for i := range len(word) {
		c := word[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	k, ok := keywords[string(upper[:len(word)])]
	return k, ok
}

// isReserved reports whether the upper-case keyword cannot be a name.
func isReserved(text string) bool { return keywords[text].reserved }

// isPlainName reports whether a name can be written without back quotes as far as
// its letters go.
func isPlainName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9' {
			continue
		}
		return false
	}
	return name != ""
}
