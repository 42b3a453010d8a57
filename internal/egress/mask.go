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
func Mask(text []byte, secrets ...Secret) []byte { return mask(text, false, secrets) }

// MaskCut is Mask for a text that may have been cut off: the beginning of a secret
// at its end is taken out as well.
func MaskCut(text []byte, secrets ...Secret) []byte { return mask(text, true, secrets) }

// Keep is what may be stored of a body: masked, and no longer than most bytes, if
// that is above 0. cut says that its end is missing already. truncated says that more of
// it is missing now.
func Keep(body []byte, most int64, cut bool, secrets ...Secret) (kept []byte, truncated bool) {
	if most <= 0 || int64(len(body)) <= most {
		return mask(body, cut, secrets), false
	}
	// A secret across the limit is seen whole: no spelling is longer than this.
	margin := 0
	for _, s := range secrets {
		margin = max(margin, 16*len(s.Reveal()))
	}
	kept = mask(body[:min(int64(len(body)), most+int64(margin))], true, secrets)
	return kept[:min(int64(len(kept)), most)], true
}

// trace is one text that betrays a secret.
type trace struct {
	text    string
	anyCase bool // hex
	wrapped bool // base64 may be broken into lines
}

func mask(text []byte, cut bool, secrets []Secret) []byte {
	var traces []trace
	for _, s := range secrets {
		if value := s.Reveal(); len(value) >= Maskable {
			traces = append(traces, tracesOf(value)...)
		}
	}
	if len(traces) == 0 || len(text) == 0 {
		return text
	}
	var (
		starts = startsOf(traces)
		out    []byte // nil until something was found
		copied int
	)
	for at := 0; at < len(text); {
		end := starts.longest(text, at, traces, cut)
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

// longest is where the longest trace ends that begins at a place; 0 for none.
func (s *starts) longest(text []byte, at int, traces []trace, cut bool) (end int) {
	if !introduces(text[at]) {
		for _, i := range s[text[at]] {
			r := reading{text: text, trace: traces[i], cut: cut}
			end = max(end, r.match(at+1, 1))
		}
		return end
	}
	var found [8]spelled
	for _, one := range spellingsAt(text, at, found[:0]) {
		for _, i := range s[one.means[0]] {
			r := reading{text: text, trace: traces[i], cut: cut}
			if r.fits(one, 0) {
				end = max(end, r.match(at+one.width, one.size))
			}
		}
	}
	return end
}

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
