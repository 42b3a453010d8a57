// Package browser lets tests use the pages of the project in a real Chromium:
// as a user who clicks, types and tabs, with and without script, and as a
// reviewer who looks for hostile text that ran, for what screen readers
// cannot read and for what does not fit.
//
// One Chromium serves all tests of a package; every page has cookies of its
// own. Whatever does not come true within Patience fails the test.
package browser

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Patience is how long a page may take for one step. Much, since two cores may
// be shared with everything else that is tested.
const Patience = 45 * time.Second

// Browser is a running Chromium.
type Browser struct {
	ctx context.Context // of chromedp; ends with the process
}

// shared is the Chromium of this test binary, there while it has users.
var shared struct {
	sync.Mutex
	users   int
	browser *Browser
	stop    func()
}

// Main runs the tests of a package with one Chromium for all of them, started
// by the first that needs it. For use as TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }
//
// Without it, Chromium ends whenever no test uses it.
func Main(m *testing.M) int {
	shared.Lock()
	shared.users++
	shared.Unlock()
	defer release()
	return m.Run()
}

// Start returns the Chromium of this test binary. It fails the test where none
// is installed.
func Start(t testing.TB) *Browser {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.browser == nil {
		browser, stop, err := launch()
		if err != nil {
			t.Fatal(err)
		}
		shared.browser, shared.stop = browser, stop
	}
	shared.users++
	t.Cleanup(release)
	return shared.browser
}

// release gives a use of the shared Chromium back; the last ends it.
func release() {
	shared.Lock()
	defer shared.Unlock()
	shared.users--
	if shared.users == 0 && shared.browser != nil {
		shared.stop()
		shared.browser, shared.stop = nil, nil
	}
}

// find returns the path of Chromium: what EXECUTOR_TEST_CHROMIUM names, else
// the first of the usual names in PATH.
func find() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if named := os.Getenv("EXECUTOR_TEST_CHROMIUM"); named != "" {
		names = []string{named}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the tests of pages need Chromium, found none of %q: apt-get install chromium, "+
		"or name one in EXECUTOR_TEST_CHROMIUM", names)
}

// launch starts a Chromium with a profile of its own. It ends with the test
// process, however that ends: it is told by its pipe, on Linux also by the
// kernel.
func launch() (*Browser, func(), error) {
	path, err := find()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "executor-browser-")
	if err != nil {
		return nil, nil, err
	}
	sweep, err := sweepAfterwards(dir)
	if err != nil {
		return nil, nil, err
	}
	allocator, endProcess := chromedp.NewExecAllocator(context.Background(), options(path, dir)...)
	ctx, endTab := chromedp.NewContext(allocator)
	stop := func() {
		_ = chromedp.Cancel(ctx) // in peace, so that no child writes to the profile any more
		endTab()
		endProcess()
		sweep()
	}
	if err := chromedp.Do(ctx); err != nil {
		endProcess()
		sweep()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return &Browser{ctx: ctx}, stop, nil
}

// options keep Chromium quiet, offline but for this machine, and drawing the
// same everywhere.
func options(path, profile string) []chromedp.ExecAllocatorOption {
	return append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(profile),
		chromedp.NoSandbox, // containers lack what the sandbox needs, and the pages are ours
		chromedp.DisableGPU,
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,BackForwardCache,"+ // going back loads the page again
			"WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess"), // no processes for what nobody sees, none in reserve
		chromedp.Flag("disable-field-trial-config", true), // nor what is tried out on some
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE [::1], EXCLUDE localhost, EXCLUDE *.localhost"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("disable-lcd-text", true),
		chromedp.Flag("lang", "en-US"),
	)
}

// sweepAfterwards starts a shell that removes dir once this process is gone or
// has called the returned function, which waits for it. A panic, a timeout or
// a kill leaves no profile behind that way.
func sweepAfterwards(dir string) (func(), error) {
	cmd := exec.Command("sh", "-c", `cat >/dev/null
for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$0" 2>/dev/null && exit; sleep 1; done`, dir)
	apart(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the shell that cleans up after Chromium: %w", err)
	}
	return func() { closeAndWait(stdin, cmd) }, nil
}

func closeAndWait(stdin io.Closer, cmd *exec.Cmd) {
	_ = stdin.Close()
	_ = cmd.Wait()
}
