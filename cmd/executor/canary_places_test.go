package main

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"executor/internal/testkit"
)

// signIn makes people, who sign in by password, wrong and right, and by a link.
func (c *canaryRun) signIn() {
	password, wrong := c.make("password"), c.make("mistyped password")
	executeIn(c.t, c.env, password, "operators", "add", "ann", "--role", "admin", "--password-stdin").must(c.t, exitSuccess)
	c.post("/sign-in", url.Values{"name": {"ann"}, "password": {wrong}})
	c.allow("mistyped password", "POST /sign-in") // the form comes back as it was filled in
	c.post("/sign-in", url.Values{"name": {wrong}, "password": {password}})
	link := execute(c.t, c.env, "operators", "add", "bob", "--role", "admin", "--link", "--url", c.process.URL()).must(c.t, exitSuccess)
	_, token, _ := strings.Cut(link.stdout, "token=")
	token = c.know("one-time link", strings.Fields(token)[0])
	c.allow("one-time link", "GET /sign-in/link")
	c.page("/sign-in/link?token=" + token)
	c.post("/sign-in/link", url.Values{"token": {token}})
	c.post("/sign-in/link", url.Values{"token": {token}})
	c.know("session of bob", c.cookie)
	c.cookie = ""
	c.post("/sign-in", url.Values{"name": {"ann"}, "password": {password}})
	c.know("session of ann", c.cookie)
	if c.cookie == "" {
		c.t.Fatal("nobody is signed in")
	}
}

// post sends a form, and takes a new cookie over.
func (c *canaryRun) post(path string, form url.Values) {
	req, err := http.NewRequest(http.MethodPost, c.process.URL()+path, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c.ask("POST "+path, req)
}

// page reads a page as whoever is signed in; what it links to is in the answer.
func (c *canaryRun) page(path string) string {
	req, err := http.NewRequest(http.MethodGet, c.process.URL()+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ask("GET "+path, req)
}

func (c *canaryRun) ask(name string, req *http.Request) string {
	if c.cookie != "" {
		req.Header.Set("Cookie", "__Host-executor="+c.cookie)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	for _, cookie := range res.Cookies() {
		if strings.HasSuffix(cookie.Name, "-executor") {
			c.cookie = cookie.Value
		}
	}
	res.Header.Del("Set-Cookie") // where it belongs
	var head bytes.Buffer
	_ = res.Header.Write(&head)
	c.keep(name, head.String()+string(body))
	return string(body)
}

// keepAnswer keeps the answer to a call of the API.
func (c *canaryRun) keepAnswer(name string, req *http.Request) string {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	var head bytes.Buffer
	_ = res.Header.Write(&head)
	c.keep(name, head.String()+string(body))
	return string(body)
}

// call reads from the API.
func (c *canaryRun) call(path string) string {
	req, err := http.NewRequest(http.MethodGet, c.process.URL()+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.env["EXECUTOR_API_KEY"])
	return c.keepAnswer("GET "+path, req)
}

// cli keeps what a command line says.
func (c *canaryRun) cli(args ...string) result {
	r := execute(c.t, c.env, args...)
	c.keep("executor "+strings.Join(args, " "), r.stdout, r.stderr)
	return r
}

// mistakes are those that people make with secrets in their hands.
func (c *canaryRun) mistakes() {
	right := c.env
	wrong := c.make("mistaken secret")
	plain := c.list0()
	for _, change := range []map[string]string{
		{"EXECUTOR_DATABASE_URL": "postgres://me:" + url.QueryEscape(plain) + "@127.0.0.1:1/none?sslmode=disable"},
		{"EXECUTOR_DATABASE_URL": "postgres://me:" + wrong + "@127.0.0.1:port/none"},
		{"EXECUTOR_DATABASE_URL": "postgres://me:" + plain + "@127.0.0.1:port/none"},
		{"EXECUTOR_DATABASE_URL": "postgres://me@127.0.0.1:1/none?password=" + plain + "&sslmode=disable&connect_timeout=x"},
		{"EXECUTOR_DATABASE_URL": "host=127.0.0.1 port=1 user=me password=" + plain + " dbname=none connect_timeout=" + plain},
		{"EXECUTOR_DATABASE_URL": "host=127.0.0.1 port=1 user=me password=" + plain + " sslmode=disable"},
		{"EXECUTOR_DATABASE_URL": plain},
		{"EXECUTOR_ENCRYPTION_KEY": wrong},
		{"EXECUTOR_ENCRYPTION_KEY": plain + "," + wrong},
		{"EXECUTOR_URL": "http://me:" + plain + "@127.0.0.1:1"},
		{"EXECUTOR_URL": "http://me:" + wrong + "@127.0.0.1:1"},
		{"EXECUTOR_API_KEY": plain},
		{"EXECUTOR_API_KEY": wrong},
		{"EXECUTOR_API_KEY": wrong + "\n"},
	} {
		c.env = map[string]string{}
		for name, value := range right {
			c.env[name] = value
		}
		for name, value := range change {
			c.env[name] = value
		}
		if change["EXECUTOR_DATABASE_URL"]+change["EXECUTOR_ENCRYPTION_KEY"] == "" {
			c.cli("list")
			continue
		}
		for _, args := range [][]string{{"serve", "--database-wait", "0s", "--log-level", "debug"}, {"doctor"}, {"migrate"}} {
			c.cli(args...)
		}
	}
	c.env = right
}

// list0 is a mistaken secret without odd characters.
func (c *canaryRun) list0() string { return c.know("plain mistaken secret", "Mq4plainZt8secretWx2") }

// follow lets a person look at doubts, change things and leave a trail.
func (c *canaryRun) follow() {
	c.cli("webhooks", "list")
	c.cli("reviews", "list", "--output", "json")
	c.cli("audit", "list", "--output", "json")
	c.cli("doctor")
	c.cli("operators", "list")
	c.cli("keys", "list", "--output", "json")
	c.cli("deliveries", "list", "--output", "json")
	for _, command := range c.list {
		c.cli("get", command.ID)
		c.cli("lookups", command.ID)
		c.cli("notices", command.ID, "--output", "json")
	}
}

var (
	linkPattern = regexp.MustCompile(`href="(/[^"#]*)`)
	mostPages   = 400
)

// collect reads every page that can be reached, every list of the API and every
// command's account, and the metrics.
func (c *canaryRun) collect() {
	todo, seen := []string{"/"}, map[string]bool{}
	for len(todo) > 0 && len(seen) < mostPages {
		path := todo[0]
		todo = todo[1:]
		shape := shapeOf(path)
		if seen[path] || seen[shape] || strings.HasPrefix(path, "/static/") || strings.HasPrefix(path, "/sign-") {
			continue
		}
		seen[path], seen[shape] = true, strings.Contains(path, "?")
		for _, link := range linkPattern.FindAllStringSubmatch(c.page(path), -1) {
			todo = append(todo, html.UnescapeString(link[1]))
		}
	}
	for _, path := range []string{
		"/v1/commands?limit=200", "/v1/reviews", "/v1/upstreams", "/v1/upstreams/bearer", "/v1/upstreams/bearer/explain", "/v1/deployment", "/v1/reconciliations",
		"/v1/webhooks", "/v1/webhook-deliveries?limit=200", "/v1/audit", "/v1/audit/verify", "/readyz", "/problems/invalid_request",
	} {
		c.call(path)
	}
	for _, command := range c.list {
		for _, of := range []string{"", "/attempts", "/lookups", "/notices", "/events", "/audit"} {
			c.call("/v1/commands/" + command.ID + of)
		}
	}
	for _, delivery := range regexp.MustCompile(`"id":"([^"]+)"`).FindAllStringSubmatch(c.call("/v1/webhook-deliveries?limit=50"), -1) {
		c.call("/v1/webhook-deliveries/" + delivery[1])
	}
	_, metrics := get(c.t, c.process.MetricsURL()+"/metrics")
	c.keep("metrics", metrics)
}

var idInPath = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|=[^&]*`)

// shapeOf is a page with parameters without their values: one of each is enough.
func shapeOf(path string) string {
	if !strings.Contains(path, "?") {
		return path + "#"
	}
	return idInPath.ReplaceAllString(path, "*")
}

// keepRows keeps every row of every table, as text and with what its bytes hold.
func (c *canaryRun) keepRows() {
	pool := testkit.Open(c.t, c.direct)
	rows, err := pool.Query(bounded(c.t), `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		c.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 20 {
		c.t.Fatalf("tables %v, %v", tables, err)
	}
	for _, table := range tables {
		rows, err := pool.Query(bounded(c.t), "SELECT r::text FROM "+table+" AS r")
		if err != nil {
			c.t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			c.t.Fatal(err)
		}
		for _, row := range list {
			c.keep("table "+table, row+bytesIn(row))
		}
	}
	// They are sent from there, as they came.
	c.allow("redacted request header", "table public.command_requests")
	c.allow("redacted request member", "table public.command_requests")
}

var bytesPattern = regexp.MustCompile(`\\x([0-9a-f]{8,})`)

// bytesIn is what stands in the bytes of a row, unpacked where it is packed.
func bytesIn(row string) string {
	var out strings.Builder
	for _, found := range bytesPattern.FindAllStringSubmatch(row, -1) {
		raw, _ := hex.DecodeString(found[1])
		out.WriteByte('\n')
		out.Write(raw)
		if r, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			_, _ = io.Copy(&out, r)
		}
	}
	return out.String()
}
