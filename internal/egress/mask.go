package egress

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	// Maskable is the length of the shortest secret that is looked for: a shorter
	// one would also be found where it is not.
	Maskable = 8
	// begun is how much of a secret must stand at the end of a text that was cut
	// off there, to be taken for its beginning.
	begun = 4
)

// Mask returns text with every trace of the secrets taken out, for what an upstream
// echoes: as they are, in base64 or hex, and each of these as JSON, HTML, URLs and
// source code write it. It returns text itself if there is none. What somebody
// disguises on purpose it does not find.
func Mask(text []byte, secrets ...Secret) []byte { return NewMasker(secrets...).Mask(text) }

// MaskCut is Mask for a text that may have been cut off: the beginning of a secret
// at its end is taken out as well.
func MaskCut(text []byte, secrets ...Secret) []byte { return NewMasker(secrets...).MaskCut(text) }

// Masker is Mask for the many texts of one exchange. It is for one goroutine.
//
// Some secrets are what an upstream or a caller chose, and could be chosen, together
// with a text, so that comparing them never ends. The work for one exchange is bounded:
// what is masked after that is taken out whole.
type Masker struct {
	traces  []trace
	starts  *starts
	longest int // bytes of a secret
	left    int // of mostWork
}

// mostWork is how many bytes may be compared for one exchange, a second's work or less.
const mostWork = 1 << 27

// NewMasker looks for secrets; those shorter than Maskable are left out.
func NewMasker(secrets ...Secret) *Masker {
	m := &Masker{left: mostWork}
	seen := make(map[string]bool, len(secrets))
	for _, s := range secrets {
		value := s.Reveal()
		if len(value) < Maskable || seen[value] {
			continue
		}
		seen[value] = true
		m.traces, m.longest = append(m.traces, tracesOf(value)...), max(m.longest, len(value))
	}
	m.starts = startsOf(m.traces)
	return m
}

// Mask is as the function is.
func (m *Masker) Mask(text []byte) []byte { return m.mask(text, false) }

// MaskCut is as the function is.
func (m *Masker) MaskCut(text []byte) []byte { return m.mask(text, true) }

// Keep is what may be stored of a body: masked, and no longer than most bytes, if
// that is above 0. cut says that its end is missing already. truncated says that more of
// it is missing now.
func (m *Masker) Keep(body []byte, most int64, cut bool) (kept []byte, truncated bool) {
	if most <= 0 || int64(len(body)) <= most {
		return m.mask(body, cut), false
	}
	// A secret across the limit is seen whole: no spelling is longer than this.
	margin := int64(16 * m.longest)
	kept = m.mask(body[:min(int64(len(body)), most+margin)], true)
	return kept[:min(int64(len(kept)), most)], true
}

// trace is one text that betrays a secret.
type trace struct {
	text    string
	anyCase bool // hex
	wrapped bool // base64 may be broken into lines
}

func (m *Masker) mask(text []byte, cut bool) []byte {
	if len(m.traces) == 0 || len(text) == 0 {
		return text
	}
	var (
		out    []byte // nil until something was found
		copied int
	)
	for at := 0; at < len(text); {
		if len(m.starts[text[at]]) == 0 && !introduces(text[at]) { // nearly always
			at++
			continue
		}
		end := m.longestAt(text, at, cut)
		if m.left < 0 {
			return []byte(redacted)
		}
		if end == 0 {
			at++
			continue
		}
		out = append(append(out, text[copied:at]...), redacted...)
		at, copied = end, end
	}
	if out == nil {
		return text
	}
	return append(out, text[copied:]...)
}

// starts are the traces by their first byte.
type starts [256][]int

func startsOf(traces []trace) *starts {
	s := &starts{}
	for i, t := range traces {
		c := t.text[0]
		s[c] = append(s[c], i)
		if t.anyCase && c >= 'a' {
			s[c-'a'+'A'] = append(s[c-'a'+'A'], i)
		}
	}
	return s
}

// longestAt is where the longest trace ends that begins at a place; 0 for none.
func (m *Masker) longestAt(text []byte, at int, cut bool) (end int) {
	if !introduces(text[at]) {
		return m.longestOf(m.starts[text[at]], text, at, cut, spelledAsIs)
	}
	var found [8]spelled
	for _, one := range spellingsAt(text, at, found[:0]) {
		end = max(end, m.longestOf(m.starts[one.means[0]], text, at, cut, one))
	}
	return end
}

// longestOf compares traces of which the beginning stands at a place like this.
func (m *Masker) longestOf(traces []int, text []byte, at int, cut bool, begins spelled) (end int) {
	for _, i := range traces {
		r := reading{text: text, trace: m.traces[i], cut: cut, left: &m.left}
		if begins == spelledAsIs {
			end = max(end, r.match(at+1, 1))
		} else if r.fits(begins, 0) {
			end = max(end, r.match(at+begins.width, begins.size))
		}
		if m.left--; m.left < 0 {
			return 0
		}
	}
	return end
}

// spelledAsIs stands for a byte that means itself.
var spelledAsIs spelled

// tracesOf lists what betrays a value. Base64 is looked for at each of the offsets
// at which the value can stand in what was encoded, without the signs that its
// neighbours have a part in.
func tracesOf(value string) []trace {
	list := []trace{{text: oneBackslash(value)}, {text: hex.EncodeToString([]byte(value)), anyCase: true}}
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, offset), value...))
		text = text[(offset*8+5)/6 : (offset+len(value))*8/6]
		list = append(list, trace{text: text, wrapped: true})
		if url := strings.NewReplacer("+", "-", "/", "_").Replace(text); url != text {
			list = append(list, trace{text: url, wrapped: true})
		}
	}
	return list
}

// oneBackslash makes one of several in a row: how many there are depends on how
// often a text was written down.
func oneBackslash(value string) string {
	for strings.Contains(value, `\\`) {
		value = strings.ReplaceAll(value, `\\`, `\`)
	}
	return value
}
