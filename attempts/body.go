package attempts

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// errEncoding says that a body cannot be read through its Content-Encoding.
var errEncoding = errors.New("undecodable body")

// decode undoes the content coding of a body (RFC 9110, section 8.4). We ask for
// none, yet gzip comes all the same. Decoding stops at max bytes: then cut is
// true. A body that itself was cut (whole is false) gives what can be had of it.
// On error the raw bytes are all there is.
func decode(header http.Header, raw []byte, whole bool, max int64) (body []byte, cut bool, err error) {
	switch coding := contentCoding(header); {
	case coding == "" || len(raw) == 0:
		return raw, false, nil
	case coding != "gzip" && coding != "x-gzip":
		return raw, false, fmt.Errorf("%w: Content-Encoding is not one that was asked for, nor gzip", errEncoding)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return raw, false, fmt.Errorf("%w: Content-Encoding says gzip, the body is not", errEncoding)
	}
	body, err = io.ReadAll(io.LimitReader(unzip, max+1))
	switch {
	case int64(len(body)) > max:
		return body[:max], true, nil
	case err != nil && (whole || !errors.Is(err, io.ErrUnexpectedEOF)):
		return raw, false, fmt.Errorf("%w: the gzip stream is damaged", errEncoding)
	default:
		return body, false, nil
	}
}

// contentCoding is the list of codings in one string, "" for none.
func contentCoding(header http.Header) string {
	var codings []string
	for _, value := range header.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != "" && coding != "identity" {
				codings = append(codings, coding)
			}
		}
	}
	return strings.Join(codings, ",")
}

// endsByItself says that a body shows its own end: one JSON value that closes
// what it opened. A bare number does not, 12 may be the beginning of 120.
func endsByItself(body []byte) bool {
	text := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	return len(text) > 0 && !bytes.ContainsRune([]byte("-0123456789"), rune(text[0])) && json.Valid(text)
}
