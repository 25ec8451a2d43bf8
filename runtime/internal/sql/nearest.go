package sql

import "strings"

// Nearest returns the candidate most like word, for "did you mean" hints. Letter
// case and underscores do not count. The second result is false where nothing is
// near enough: more than a third of the letters differ. The first of several
// equally near candidates wins.
func Nearest(word string, candidates []string) (string, bool) {
	w := fold(word)
	if w == "" || len(w) > maxNearestLen {
		return "", false
	}
	best, bestDistance := "", len(w)+1
	for _, c := range candidates {
		f := fold(c)
		if len(f) > maxNearestLen {
			continue
		}
		limit := max(len(w), len(f)) / 3
		d := distance(w, f)
		if d == 2 && len(w) > 2 && sameLetters(w, f) {
			d = 1 // a letter in the wrong place is one slip, as in WHIT for WITH
		}
		if d <= limit && d < bestDistance && d < len(f) {
			best, bestDistance = c, d
		}
	}
	return best, best != ""
}

// sameLetters reports whether a is b in another order.
func sameLetters(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	var counts [256]int8
	for i := range len(a) {
		counts[a[i]]++
		counts[b[i]]--
	}
	return counts == [256]int8{}
}

// maxNearestLen bounds the work per candidate.
const maxNearestLen = 64

// fold lowers case and drops underscores.
func fold(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "_", "")
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	var rows [3][maxNearestLen + 1]int
	before, previous, current := rows[0][:], rows[1][:], rows[2][:]
	for j := range len(b) + 1 {
		previous[j] = j
	}
	for i := range len(a) {
		current[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			d := min(previous[j]+cost, previous[j+1]+1, current[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			current[j+1] = d
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
