package reconcile

import (
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"executor/commands"
	"executor/outcome"
)

// readAll reads a file without a database.
func readAll(format ReportFormat, settings reportSettings, file string) ([]reportLine, error) {
	p := &reportPlan{ReportRequest: ReportRequest{Format: format}, settings: settings}
	lines, err := openReport(p, strings.NewReader(file))
	if err != nil {
		return nil, err
	}
	var all []reportLine
	for {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
}

func TestReportFilesThatCannotBeRead(t *testing.T) {
	long := strings.Repeat("x", maxReportLine)
	tests := []struct {
		format     ReportFormat
		file, want string
	}{
		{ReportCSV, "", "line 1: the file is empty"},
		{ReportCSV, "\n\n", "line 1: the file is empty"},
		{ReportCSV, "key,state\na,b\nc\n", "line 3: there are 1 cells, the header has 2"},
		{ReportCSV, "key,state\na,b\nc,d,e\n", "line 3: there are 3 cells, the header has 2"},
		{ReportCSV, "key,state\na,\"b\nc,d\n", "line 3, column 5: extraneous or missing \" in quoted-field; the record begins on line 2"},
		{ReportCSV, "key,state\na,b\"c\n", "line 2, column 4: bare"},
		{ReportCSV, "key,state\na,\"b\"c\n", "line 2, column 5: extraneous"},
		{ReportCSV, "key,state\na,b\nc,\x00\n", "line 3, column 3: there is a NUL byte"},
		{ReportCSV, "key,state\na,b\nc,d\xff\n", "line 3, column 3: the text is not UTF-8"},
		{ReportCSV, "\xff\xfek\x00,\x00", "line 1, column 1: there is a NUL byte"},
		{ReportCSV, "key,state\rk,success\r", "line 1, column 5: the name of a column holds a control character"},
		{ReportCSV, "key,state,key\n", `line 1, column 11: there are two columns "key"`},
		{ReportCSV, "key,status\n", `line 1: there is no column "state"; the columns are key, status`},
		{ReportCSV, "id,state\n", "line 1: no column names a command"},
		{ReportCSV, "key;state\n", `line 1: there is no column "state"; the columns are key;state`},
		{ReportCSV, "key,state\na,b\n" + long + ",c\n", "line 3: the line is longer than 65536 bytes"},
		{ReportCSV, "key,state\na,b\n\"" + strings.Repeat(long+"\n", 3), "line 3: a line is longer than 65536 bytes; perhaps a quote is not closed"},
		{ReportCSV, strings.Repeat("c,", maxColumns) + "d\n", "line 1: there are more than 1000 columns"},
		{ReportJSONL, "{}\n[]\n", "line 2: each line is a JSON object"},
		{ReportJSONL, "{}\n\n{\"key\": \"a\", \"key\": \"b\"}", `line 3: it names "key" twice`},
		{ReportJSONL, `{"a": {"b": 1, "b": 2}}`, `line 1: it names "b" twice`},
		{ReportJSONL, `{"key": "a",}`, "line 1, column 13: invalid character"},
		{ReportJSONL, `{"key": "a"} {}`, "line 1, column 14: invalid character"},
		{ReportJSONL, `{"key": "a"`, "line 1, column 11: unexpected end"},
		{ReportJSONL, "{\"key\": \"a\xff\"}", "line 1: the text is not UTF-8"},
		{ReportJSONL, `{"key": "a\u0000"}`, "line 1: key: there is a NUL byte"},
		{ReportJSONL, `{"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "line 1: it is nested more than 64 levels deep"},
		{ReportJSONL, "{}\n{\"a\": \"" + long + "\"}", "line 2: the line is longer than 65536 bytes"},
	}
	for _, tt := range tests {
		_, err := readAll(tt.format, reportSettings{}, tt.file)
		var invalid *commands.Invalid
		if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Detail, tt.want) {
			t.Errorf("%.40q: got %v, want %q", tt.file, err, tt.want)
		}
	}
}

func TestReportCellsAreData(t *testing.T) {
	file := "\ufeffkey,state,\"a \"\"name\"\"\"\r\n" +
		"=1+1,success,\"two\r\nlines\"\r\n" +
		"\"a,b\",\"success\",<script>\r\n\r\n" +
		"@x,' success,\u2028"
	lines, err := readAll(ReportCSV, reportSettings{}, file)
	if err != nil || len(lines) != 3 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, want := range []reportLine{
		{Number: 1, Line: 2, Key: "=1+1", Word: "success", Finding: outcome.FindingApplied, Content: `{"key":"=1+1","state":"success","a \"name\"":"two\nlines"}`},
		{Number: 2, Line: 4, Key: "a,b", Word: "success", Finding: outcome.FindingApplied, Content: `{"key":"a,b","state":"success","a \"name\"":"<script>"}`},
		{Number: 3, Line: 6, Key: "@x", Word: "' success", Problem: `nobody said what the state "' success" means`, Content: `{"key":"@x","state":"' success","a \"name\"":"\u2028"}`},
	} {
		got := lines[i]
		if got.Number != want.Number || got.Line != want.Line || got.Key != want.Key || got.Word != want.Word || got.Finding != want.Finding ||
			got.Problem != want.Problem || got.Content != want.Content {
			t.Errorf("line %d is read as %+v, want %+v", i+1, got, want)
		}
	}
}

func TestReportValuesThatAreTooLongAreNotCompared(t *testing.T) {
	long := strings.Repeat("é", maxReportValue)
	lines, err := readAll(ReportCSV, reportSettings{Compare: []Comparison{{"amount", "/body/amount"}}},
		"key,state,amount\n"+long+",success,1\nk,success,"+long+"\n")
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, l := range lines {
		if !strings.Contains(l.Problem, "holds more than 1024 bytes") || len(l.Key) > maxReportValue || !utf8.ValidString(l.Key) {
			t.Errorf("got %.80q, %q", l.Key, l.Problem)
		}
	}
}

func FuzzReportLines(f *testing.F) {
	f.Add(false, "key,reference,state,amount\n\"a\",b,success,1.5\r\n")
	f.Add(false, "\ufeffkey,state\n=x,\"a\nb\"\n")
	f.Add(true, `{"key": "a", "reference": {"x": [1, 2]}, "state": "success", "amount": 1e999}`+"\n\n{}")
	f.Add(true, `{"key": "\ud800", "state": null}`)
	settings := reportSettings{Compare: []Comparison{{"amount", "/body/amount"}}}
	f.Fuzz(func(t *testing.T, asJSON bool, file string) {
		format := ReportCSV
		if asJSON {
			format = ReportJSONL
		}
		lines, err := readAll(format, settings, file)
		var invalid *commands.Invalid
		if err != nil && !errors.As(err, &invalid) {
			t.Fatalf("the error is no refusal: %v", err)
		}
		before := 0
		for i, l := range lines {
			if l.Number != i+1 || l.Line <= before || len(l.Given) != 1 || l.Problem == "" && l.Finding == "" {
				t.Fatalf("line %d after line %d of the file is %+v", i+1, before, l)
			}
			before = l.Line
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(l.Content), &object); err != nil {
				t.Fatalf("%q is kept as %q: %v", file, l.Content, err)
			}
			for _, text := range []string{l.Key, l.Reference, l.Word, l.Code, l.Message, l.Problem, l.Content, given(l.Given[0])} {
				if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
					t.Fatalf("the database cannot hold %q", text)
				}
			}
		}
	})
}

func TestReportNumbersAreEqualByTheirValue(t *testing.T) {
	number := func(s string) *fieldText { return &fieldText{text: s, number: true} }
	text := func(s string) *fieldText { return &fieldText{text: s} }
	tests := []struct {
		ours   *fieldText
		theirs string
		want   bool
	}{
		{number("12.50"), "12.5", true}, {number("12.5"), "12.500", true}, {number("1250e-2"), "12.5", true}, {number("12"), "12.0", true},
		{number("12"), " +12 ", true}, {number("-0.0"), "0", true}, {number("0"), "0e5", true}, {number("1E3"), "1000", true},
		{number("0.1"), "0.10000000000000000555", false}, {number("9007199254740993"), "9007199254740992", false},
		{number("12.5"), "12,5", false}, {number("12"), "-12", false}, {number("12"), "", false}, {number("12"), "0012", false},
		{number("12"), "12.", false}, {number("12"), ".12e2", false}, {number("12"), "1_2", false}, {number("12"), "0x0c", false},
		{number("1e999999999"), "1e999999998", false}, {number("12"), "twelve", false},
		{text("12.50"), "12.5", true}, {text("0012"), "12", false}, {text("0012"), "0012", true}, {text("1E3"), "1000", false},
		{text("abc"), "ABC", false}, {text(""), "", true}, {text("true"), "true", true}, {nil, "", true}, {nil, "0", false},
	}
	for _, tt := range tests {
		if got := equalValues(tt.ours, &tt.theirs); got != tt.want {
			t.Errorf("%+v and %q: %v, want %v", tt.ours, tt.theirs, got, tt.want)
		}
	}
	if equalValues(text("x"), nil) || !equalValues(nil, nil) {
		t.Error("nothing equals something")
	}
}

// FuzzReportDecimals compares with exact fractions.
func FuzzReportDecimals(f *testing.F) {
	for _, s := range []string{"12.50", "-0.0", "1e3", "100", "0.001", "1E-2", "00", "1.", "-1"} {
		f.Add(s, "12.5")
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		a, okA := parseDecimal(x, true)
		b, okB := parseDecimal(y, true)
		if !okA || !okB || len(x) > 40 || len(y) > 40 || a.exponent > 500 || a.exponent < -500 || b.exponent > 500 || b.exponent < -500 {
			return
		}
		exactA, isA := new(big.Rat).SetString(x)
		exactB, isB := new(big.Rat).SetString(y)
		if !isA || !isB {
			t.Fatalf("%q or %q is taken for a number", x, y)
		}
		if want := exactA.Cmp(exactB) == 0; a.equal(b) != want {
			t.Fatalf("%q = %q: %v, want %v", x, y, a.equal(b), want)
		}
	})
}

func TestReportFieldsOfACommand(t *testing.T) {
	for _, good := range []string{"/body/amount", "/body/a~1b/0", "metadata.order", "metadata.a.b"} {
		if _, err := parseField(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "/body", "body/amount", "/amount", "metadata.", "metadata"} {
		if _, err := parseField(bad); err == nil {
			t.Errorf("%q is taken for a field", bad)
		}
	}
	body := []byte(`{"a/b": [{"n": 1.50}, "x"], "list": [1, 2], "yes": true, "no": null}`)
	for path, want := range map[string]string{"/a~1b/0/n": "1.50", "/a~1b/1": "x", "/list": "[1,2]", "/yes": "true"} {
		got, err := bodyAt(body, "application/json", [][]string{pointerPath(path)})
		if err != nil || shown(got[0]) != want {
			t.Errorf("%s is %q, %v, want %q", path, shown(got[0]), err, want)
		}
	}
	for _, path := range []string{"/no", "/none", "/a~1b/2", "/a~1b/01", "/a~1b/-1", "/yes/x"} {
		if got, err := bodyAt(body, "application/json", [][]string{pointerPath(path)}); err != nil || got[0] != nil {
			t.Errorf("%s is %+v, %v, want nothing", path, got[0], err)
		}
	}
	if got, _ := bodyAt([]byte("a=1&b=2&b=3"), "application/x-www-form-urlencoded; charset=utf-8", [][]string{{"a"}, {"b"}, {"c"}}); shown(got[0]) != "1" || got[1] != nil || got[2] != nil {
		t.Errorf("the form is read as %v", got)
	}
}

func TestSameMeaningOfStateAndFinding(t *testing.T) {
	same := map[outcome.State]outcome.Finding{
		"success": "applied", "rejected": "refused", "cancelled": "absent", "unresolved": "pending", "pending": "pending", "executing": "pending",
	}
	for _, state := range outcome.States() {
		for _, f := range outcome.Findings() {
			if got := sameMeaning(state, f); got != (same[state] == f) {
				t.Errorf("sameMeaning(%s, %s) = %v", state, f, got)
			}
		}
	}
	for word, f := range reportWords {
		if !slices.Contains(outcome.Findings(), f) || word != strings.ToLower(word) {
			t.Errorf("%q means %q", word, f)
		}
	}
	for _, state := range outcome.States() {
		if f, ok := (reportSettings{}).finding(string(state)); !ok || !sameMeaning(state, f) {
			t.Errorf("our own word %q means %q", state, f)
		}
	}
}
