package runtime

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// shortSecret is the length up to which a secret is hidden only where it stands
// in the script: elsewhere the same letters are more likely something else.
const shortSecret = 3

// redact returns src with every letter of a secret replaced by one of the same
// size, so that offsets and columns stay what they are, and a function that hides
// the secrets in a message.
//
// Errors show lines of the script, after variables have been replaced. What may
// be a secret is recognised by its surroundings and not by the options of a
// connector, since a script with errors may name either wrongly.
func redact(src string) (masked string, hide func(string) string) {
	b := []byte(src)
	var secrets []string
	for _, pattern := range []string{
		"(?i)\\b(?:\\w*(?:passw|pasw|pwd|token|secret)\\w*|creds)[\"`]?\\s*=?\\s*['\"]([^'\"\n]+)",
		`://([^/@\s'"]+)@`,
	} {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatchIndex(src, -1) {
			secrets = append(secrets, src[m[2]:m[3]])
			copy(b[m[2]:m[3]], strings.Map(star, src[m[2]:m[3]]))
		}
	}
	return string(b), func(text string) string {
		for _, s := range secrets {
			if utf8.RuneCountInString(s) > shortSecret {
				text = strings.ReplaceAll(text, s, "***")
			}
		}
		return text
	}
}

// star returns a letter that takes as many bytes as r.
func star(r rune) rune {
	return [...]rune{'*', '*', '·', '•', '🞄'}[max(0, utf8.RuneLen(r))]
}
