package zzwalk

import (
	"fmt"
	"os"
	"testing"

	"executor/internal/testkit/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

func TestWalk(t *testing.T) {
	b := browser.Start(t)
	p := b.Open(t, browser.Size(1440, 900))
	n := 0
	shot := func() { n++; p.Screenshot(fmt.Sprintf("/tmp/walk/%02d.png", n), true); fmt.Println(n, p.URL()) }
	p.Goto(os.Getenv("LINK"))
	p.Follow("main button[type=submit]")
	shot()
	p.Follow("a[href='/reviews']")
	shot()
	p.Follow("[data-row] a[data-open]")
	shot()
	p.Follow("a[href$='/resolve']")
	shot()
	fmt.Println(p.Text("main"))
	p.Quiet(t)
}
