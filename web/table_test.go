package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// exported runs an export of five pages with one row each and returns what came, and
// whether the connection was broken off.
func exported(t *testing.T, failing int, ends func(rows, pages int) string) (body string, broken bool, err error) {
	t.Helper()
	w := httptest.NewRecorder()
	v := &visit{w: w, r: httptest.NewRequest(http.MethodGet, "/x.csv", nil)}
	s := &Server{log: slog.New(slog.DiscardHandler)}
	defer func() {
		broken = recover() == http.ErrAbortHandler
		body = w.Body.String()
	}()
	err = s.export(v, table{name: "x", columns: []string{"n"}, ends: ends, page: func(_ context.Context, cursor string) ([][]string, string, error) {
		n, _ := strconv.Atoi(cursor)
		if n == failing {
			return nil, "", errors.New("the database is away")
		}
		next := strconv.Itoa(n + 1)
		if n == 4 {
			next = ""
		}
		return [][]string{{strconv.Itoa(n)}}, next, nil
	}})
	return body, broken, err
}

func TestAnExportEndsWholeOrSaysSo(t *testing.T) {
	afterTwo := func(rows, pages int) string {
		if rows < 2 || rows != pages {
			return ""
		}
		return "(ends here)"
	}
	for name, tt := range map[string]struct {
		failing int
		ends    func(rows, pages int) string
		body    string
		broken  bool
		err     bool
	}{
		"whole":      {-1, nil, "n\r\n0\r\n1\r\n2\r\n3\r\n4\r\n", false, false},
		"bounded":    {-1, afterTwo, "n\r\n0\r\n1\r\n(ends here)\r\n", false, false},
		"broken off": {2, nil, "n\r\n0\r\n1\r\n", true, false},
		"not at all": {0, nil, "", false, true},
	} {
		body, broken, err := exported(t, tt.failing, tt.ends)
		if body != tt.body || broken != tt.broken || (err != nil) != tt.err {
			t.Errorf("%s: %q, broken off %v, %v", name, body, broken, err)
		}
	}
}
