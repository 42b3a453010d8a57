package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axeSource is axe-core; see testdata/axe/README.md.
//
//go:embed testdata/axe/axe.min.js
var axeSource string

// allRules are those of WCAG 2.0 to 2.2, A and AA, and good practice.
const allRules = `runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], rules: {'target-size': {enabled: true}}`

// colourRules are those that depend on the colours alone.
const colourRules = `runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}`

// axeRun asks for rules.
const axeRun = `axe.run(document, {resultTypes: ['violations'], %s}).then(results => JSON.stringify(results.violations.map(v => ({
	rule: v.id, impact: v.impact ?? '', help: v.help,
	nodes: v.nodes.map(n => ({at: n.target.flat().join(' '), why: n.failureSummary ?? ''})),
}))))`

// violation is a rule that a page breaks.
type violation struct {
	Rule, Impact, Help string
	Nodes              []struct{ At, Why string }
}

func (v violation) String() string {
	var places []string
	for _, node := range v.Nodes {
		why := strings.Join(strings.Fields(node.Why), " ")
		places = append(places, fmt.Sprintf("    %s: %s", node.At, why))
	}
	return fmt.Sprintf("%s (%s): %s\n%s", v.Rule, v.Impact, v.Help, strings.Join(firstFew(places), "\n"))
}

// Axe fails the test for what axe-core finds: barriers for people who use the
// page with a screen reader, a keyboard, or little sight.
func (p *Page) Axe(t testing.TB) {
	t.Helper()
	p.judge(t, allRules)
}

// Contrast is Axe for the rules about colours alone, for a page in its other scheme.
func (p *Page) Contrast(t testing.TB) {
	t.Helper()
	p.judge(t, colourRules)
}

func (p *Page) judge(t testing.TB, rules string) {
	t.Helper()
	var found []violation
	p.must("run axe-core", func(ctx context.Context) error {
		text, err := p.withScript(ctx, func(ctx context.Context) (string, error) { return runAxe(ctx, rules) })
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &found)
	})
	var texts []string
	for _, v := range found {
		texts = append(texts, v.String())
	}
	if len(texts) > 0 {
		t.Errorf("%s has barriers:\n  %s", p.URL(), strings.Join(firstFew(texts), "\n  "))
	}
}

// withScript lets a step use promises and timers also where the page may not.
// Scripts of the page do not start by that: they were left out when it loaded.
func (p *Page) withScript(ctx context.Context, step func(context.Context) (string, error)) (string, error) {
	if p.script {
		return step(ctx)
	}
	disabled := emulation.SetScriptExecutionDisabledParams{Value: true}
	if err := call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{}); err != nil {
		return "", err
	}
	text, err := step(ctx)
	if err != nil {
		return "", err
	}
	return text, call(ctx, emulation.SetScriptExecutionDisabled, disabled)
}

// runAxe runs axe-core in a world of its own: neither does the page see it, nor
// does the page's CSP stop it.
func runAxe(ctx context.Context, rules string) (string, error) {
	tree, err := chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		return "", err
	}
	world, err := chromedp.Call(ctx, page.CreateIsolatedWorld,
		page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
	if err != nil {
		return "", err
	}
	return chromedp.Run(ctx, chromedp.Evaluate[string](axeSource+"\n;"+fmt.Sprintf(axeRun, rules), chromedp.EvalAwaitPromise,
		func(params *runtime.EvaluateParams) { params.ContextID = world.ExecutionContextID }))
}
