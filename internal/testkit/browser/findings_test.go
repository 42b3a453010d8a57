package browser

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNoiseIsHeard(t *testing.T) {
	url := site(t, map[string]string{
		"/style":     `<p style="color: red">red</p>`,
		"/inline":    `<script>document.title = "ran"</script><img src="x" onerror="alert(1)">`,
		"/foreign":   `<img alt="" src="http://tracker.example/pixel.png"><a href="http://elsewhere.example/">away</a>`,
		"/alert":     `<script src="/alert.js"></script>`,
		"/alert.js":  `alert("hostile")`,
		"/throws":    `<script src="/throws.js"></script>`,
		"/throws.js": `console.error("told", 1); null.property`,
		"/missing":   `<script src="/nothing.js?no"></script><img alt="" src="/nothing.png">`,
	})
	pages := map[bool]*Page{true: Start(t).Open(t), false: Start(t).Open(t, NoScript())}
	for _, tt := range []struct {
		path, want string
		script     bool
	}{
		{"/style", "CSP violation: inline code blocked by style-src-attr", true},
		{"/style", "CSP violation: inline code blocked by style-src-attr", false},
		{"/inline", "CSP violation: inline code blocked by script-src-elem", true},
		{"/inline", "CSP violation: inline code blocked by script-src-attr", true},
		{"/foreign", "tracker.example", true},
		{"/foreign", "tracker.example", false},
		{"/alert", `dialog: alert "hostile"`, true},
		{"/throws", "exception: TypeError", true},
		{"/throws", `console error: "told" 1`, true},
		{"/missing", "failed request: 404 from", true},
	} {
		p := pages[tt.script]
		p.Goto(url + tt.path)
		if got := failures(t, func(t testing.TB) { p.Quiet(t) }); !strings.Contains(got, tt.want) {
			t.Errorf("%s, script %v: got %q, want %q", tt.path, tt.script, got, tt.want)
		}
	}
	for _, p := range pages {
		p.Quiet(t, "violation", "log:", "host", "dialog", "exception", "console", "failed")
	}
}

func TestRequestsToOtherHostsAreHeard(t *testing.T) {
	url := site(t, map[string]string{"/": `<a href="http://elsewhere.example/">away</a>`})
	p := Start(t).Open(t)
	p.Goto(url + "/")
	p.Click("a")
	p.until("a request", func(ctx context.Context) (bool, error) { return len(p.Requests()) > 2, nil })
	if got := failures(t, func(t testing.TB) { p.Quiet(t) }); !strings.Contains(got, "request to another host: http://elsewhere.example/") {
		t.Errorf("got %q", got)
	}
}

func TestBarriersAreFound(t *testing.T) {
	url := site(t, map[string]string{"/": `<h1>Form</h1><input name="nameless"><p class="faint">Hard to read</p><p>As all</p>`,
		"/faint":    `<h1>Form</h1><section><p class="faint">Hard to read too</p></section>`,
		"/dark":     `<h1>Form</h1><section><p class="faint dark">On another ground</p></section>`,
		"/nav":      `<h1>Form</h1><nav aria-label="a"><a href="/nav">As it is</a></nav><p><a href="/nav">Alone</a></p>`,
		"/text":     `<h1>Form</h1><p>As it is <a href="/nav">within</a> a text that goes on beside it</p>`,
		"/site.css": `.faint { color: #ddd; background: #fff } .dark { background: #eee } a { color: #333; text-decoration: none }`})
	for _, options := range [][]Option{nil, {NoScript()}} {
		p := Start(t).Open(t, options...)
		p.Goto(url + "/")
		var seen Colours
		got := failures(t, func(t testing.TB) { p.Axe(t); seen.Judge(t, p) })
		for _, want := range []string{"label (critical)", "color-contrast (serious)", ".faint: Fix", "input: Fix"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		for path, found := range map[string]bool{"/faint": false, "/dark": true} { // a look once
			p.Goto(url + path)
			if got := failures(t, func(t testing.TB) { seen.Judge(t, p) }); strings.Contains(got, "color-contrast") != found {
				t.Errorf("%s: %s", path, got)
			}
		}
		for _, at := range []struct {
			path  string
			found bool
		}{{"/nav", false}, {"/text", true}, {"/text", false}} { // a link is looked at where a text is beside it
			p.Goto(url + at.path)
			if got := failures(t, func(t testing.TB) { seen.Judge(t, p) }); strings.Contains(got, "link-in-text-block") != at.found {
				t.Errorf("%s: %s", at.path, got)
			}
		}
		p.Quiet(t)
	}
}

func TestMisfitsAreFound(t *testing.T) {
	const css = `.wide { width: 900px } .cut { width: 4em; overflow: hidden; white-space: nowrap }
.dots { text-overflow: ellipsis } .low { height: 1em; overflow: hidden; width: 6em } .scroll { overflow-x: auto }
.left { position: relative; left: -60px } .over { position: relative; left: -30px; min-height: 40px }
button { min-width: 60px; min-height: 40px } .tiny { min-height: 0; min-width: 0; width: 12px; height: 12px; padding: 0; margin: 0 }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }`
	p := Start(t).Open(t, Size(390, 844))
	for _, tt := range []struct{ name, body, want string }{
		{"wide", `<div class="wide">wide</div>`, `the page is 908 px wide, its viewport 390: div.wide "wide"`},
		{"scrolled", `<div class="scroll"><div class="wide">wide</div></div>`, ""},
		{"cut", `<p class="cut">A long text that is cut</p>`, `p.cut "A long text that is cut" cuts its text`},
		{"allowed", `<p class="cut clip">A long text that is cut</p>`, ""},
		{"dots", `<p class="cut dots">A long text that is cut</p>`, "cuts its text"},
		{"title", `<p class="cut dots" title="A long text that is cut">A long text that is cut</p>`, ""},
		{"low", `<p class="low">A long text that has many lines</p>`, "px high in"},
		{"for readers", `<p class="hidden">A text for screen readers only</p>`, ""},
		{"left", `<p class="left">A long text that begins too early</p>`, "px left of the page"},
		{"overlap", `<button id="a">One</button><button id="b" class="over">Two</button>`, "button#a and button#b overlap"},
		{"nested", `<a href="#x">One <b>link</b></a>`, ""},
		{"tiny", `<button class="tiny" id="a"></button><button class="tiny" id="b"></button>`, "button#a is a target of 12 × 12 px, too close to button#b"},
		{"tiny, alone", `<button class="tiny" id="a"></button>`, ""},
		{"sentence", `<p>See <a href="#a">this</a> <a href="#b">that</a> and others, all of them</p>`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := site(t, map[string]string{"/": tt.body, "/site.css": css})
			p.Goto(url + "/")
			got := failures(t, func(t testing.TB) { p.NothingCut(t) })
			if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAFailureShowsThePage(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	url := site(t, map[string]string{"/": `<h1>Reviews</h1><p id="state">waiting</p><button disabled>Send</button>`})
	p := Start(t).Open(t)
	for want, piece := range map[string]func(*Page){
		`#state contains "sent": it reads "waiting"`: func(p *Page) { p.WaitText("#state", "sent") },
		"nothing matches #nowhere":                   func(p *Page) { p.Click("#nowhere") },
		"button is disabled":                         func(p *Page) { p.Click("button") },
		"it is " + url:                               func(p *Page) { p.WaitURL("/done") },
		"the document behind #state":                 func(p *Page) { p.Follow("#state") },
	} {
		p.Goto(url + "/")
		got := failures(t, func(t testing.TB) {
			p.t, p.patience = t, 500*time.Millisecond
			piece(p)
		})
		for _, part := range []string{want, "url: " + url, "text: Reviews waiting Send", "executor-failed-page-"} {
			if !strings.Contains(got, part) {
				t.Errorf("%q is not in %q", part, got)
			}
		}
		p.t, p.patience = t, Patience
	}
	if pictures, _ := filepath.Glob(filepath.Join(os.TempDir(), "executor-failed-page-*.png")); len(pictures) != 5 {
		t.Errorf("pictures: %q", pictures)
	}
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	url := site(t, map[string]string{"/": good, "/site.css": goodCSS})
	for _, options := range [][]Option{nil, {NoScript()}} {
		p := Start(t).Open(t, options...)
		p.Goto(url + "/")
		got := KeyboardTour(t, p)
		want := []Stop{{`a "another page"`, true}, {"input#reason", true}, {"select#kind", true}, {"input[name=sure]", true}, {`button "Send"`, true}}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestBarriersForTheKeyboardAreFound(t *testing.T) {
	const css = ".bare:focus { outline: none } .bar { position: fixed; inset: 0 0 auto 0; height: 100px; background: #fff }"
	p := Start(t).Open(t)
	for _, tt := range []struct{ name, body, want string }{
		{"invisible", `<button id="a" class="bare">A</button>`, "the focus cannot be seen at button#a"},
		{"covered", `<button id="a">A</button><div class="bar"></div>`, "the focus cannot be seen at button#a"},
		{"trap", `<button id="a">A</button><input id="b"><button id="c">C</button><script src="/trap.js"></script>`, "Tab never reaches button#c"},
		{"date", `<label>When <input type="datetime-local" id="a"></label><button id="b">B</button>`, ""},
		{"radio", `<label><input type="radio" name="r"> One</label><label><input type="radio" name="r"> Two</label>`, ""},
	} {
		url := site(t, map[string]string{"/": tt.body, "/site.css": css,
			"/trap.js": `document.getElementById("b").onkeydown = (e) => e.preventDefault()`})
		p.Goto(url + "/")
		got := failures(t, func(t testing.TB) { KeyboardTour(t, p) })
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestShotsAreSmallAndTheSameEachTime(t *testing.T) {
	url := site(t, map[string]string{"/": good, "/site.css": goodCSS})
	dirs := []string{t.TempDir(), t.TempDir()}
	p := Start(t).Open(t)
	for _, dir := range dirs {
		Shots(t, p, dir, url, []Shot{{Name: "reviews", Path: "/", Dark: true}})
	}
	files, err := filepath.Glob(filepath.Join(dirs[0], "reviews-*.png"))
	if err != nil || len(files) != 2*len(Widths) {
		t.Fatalf("files: %q, %v", files, err)
	}
	for _, file := range files {
		first, again := readFile(t, file), readFile(t, filepath.Join(dirs[1], filepath.Base(file)))
		if !bytes.Equal(first, again) {
			t.Errorf("%s changes from run to run", filepath.Base(file))
		}
		picture, err := png.Decode(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		width := fmt.Sprintf("-%d", picture.Bounds().Dx())
		if !strings.Contains(file, width) || len(first) > 40_000 {
			t.Errorf("%s: %v, %d bytes", filepath.Base(file), picture.Bounds(), len(first))
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
