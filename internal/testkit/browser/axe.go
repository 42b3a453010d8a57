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

// allRules are those of WCAG 2.0 to 2.2, A and AA, and good practice, but for
// those about colours.
const allRules = `runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
	rules: {'target-size': {enabled: true}, 'color-contrast': {enabled: false}, 'link-in-text-block': {enabled: false}}`

// colourRules are those that depend on the colours alone.
const colourRules = `runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}`

// axeRun asks for rules, and tells which of the elements asked about were judged.
const axeRun = `(within => axe.run(within, {resultTypes: ['violations', 'passes'], elementRef: true, %s}).then(results => {
	const judged = new Set([...results.violations, ...results.passes].flatMap(r => r.nodes.map(n => n.element)));
	return JSON.stringify({
		judged: [within].flat().flatMap((e, i) => judged.has(e) ? [i] : []),
		violations: results.violations.map(v => ({
			rule: v.id, impact: v.impact ?? '', help: v.help,
			nodes: v.nodes.map(n => ({at: n.target.flat().join(' '), why: n.failureSummary ?? ''})),
		})),
	});
}))(%s)`

// findings are what axe-core says of a page.
type findings struct {
	Judged     []int // places in the list of elements asked about
	Violations []violation
}

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
// page with a screen reader, a keyboard, or little sight. For the colours see
// Colours.
func (p *Page) Axe(t testing.TB) {
	t.Helper()
	p.judge(t, allRules)
}

// judge asks for rules, about the elements that the selectors find or about all,
// and returns the places of those selectors whose elements were judged.
func (p *Page) judge(t testing.TB, rules string, selectors ...string) (judged []int) {
	t.Helper()
	var found findings
	p.must("run axe-core", func(ctx context.Context) error {
		run := fmt.Sprintf(axeRun, rules, within(selectors))
		text, err := p.withScript(ctx, func(ctx context.Context) (string, error) { return runAxe(ctx, run) })
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &found)
	})
	var texts []string
	for _, v := range found.Violations {
		texts = append(texts, v.String())
	}
	if len(texts) > 0 {
		t.Errorf("%s has barriers:\n  %s", p.URL(), strings.Join(firstFew(texts), "\n  "))
	}
	return found.Judged
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
// does the page's CSP stop it. The world is that of a document, and axe-core is
// read into it once.
func runAxe(ctx context.Context, run string) (string, error) {
	tree, err := chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	if err != nil {
		return "", err
	}
	world, err := chromedp.Call(ctx, page.CreateIsolatedWorld,
		page.CreateIsolatedWorldParams{FrameID: tree.FrameTree.Frame.ID, WorldName: "axe"})
	if err != nil {
		return "", err
	}
	within := func(params *runtime.EvaluateParams) { params.ContextID = world.ExecutionContextID }
	there, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`typeof axe === "object"`, within))
	if err != nil {
		return "", err
	}
	if !there {
		run = axeSource + "\n;" + run
	}
	return chromedp.Run(ctx, chromedp.Evaluate[string](run, chromedp.EvalAwaitPromise, within))
}
