package option

import "strings"

// Nearest returns the candidate closest to word by edit distance, if one is
// close enough to be what was meant. Case and underscores do not count.
func Nearest(word string, candidates []string) (string, bool) {
	w := Fold(word)
	best, bestDist := "", len(w)/3+2
	for _, c := range candidates {
		f := Fold(c)
		d := distance(w, f)
		if strings.HasPrefix(f, w) && len(w) >= 3 {
			d = min(d, 1)
		}
		if d < bestDist {
			best, bestDist = c, d
		}
	}
	return best, best != ""
}

// distance is the Damerau-Levenshtein distance with adjacent transpositions.
func distance(a, b string) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
