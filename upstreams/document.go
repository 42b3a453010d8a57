package upstreams

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a profile, checked before the parser recurses into it.
const (
	maxSourceBytes = 1 << 20
	maxTokens      = 50_000
	maxNesting     = 32
	maxVisited     = 200_000 // mapping members read, repeats by aliases included
)

// document is a YAML source while it is read: its tree, its anchors and what was
// found wrong so far. Reading goes on after a problem, so that one run shows
// several.
type document struct {
	file     string
	lines    []string
	root     ast.Node
	anchors  map[string]ast.Node
	problems []Problem
	visited  int
}

func newDocument(file string, src []byte) *document {
	return &document{file: file, lines: splitLines(string(withoutBOM(src))), anchors: map[string]ast.Node{}}
}

// splitLines splits where YAML breaks lines: at LF, CR and CR LF.
func splitLines(s string) []string {
	return strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s), "\n")
}

// load parses the source. It reports false if there is no tree to read.
func (d *document) load(src []byte) bool {
	if len(src) > maxSourceBytes {
		d.problem(position{1, 1}, "", fmt.Sprintf("the profile is larger than %d bytes", maxSourceBytes), "Split it: one file describes one upstream.")
		return false
	}
	text, err := standIn(string(withoutBOM(src)))
	if err != nil {
		d.problem(position{1, 1}, "", err.Error(), "Save the file as UTF-8.")
		return false
	}
	tokens := lexer.Tokenize(text)
	if !d.checkTokens(tokens) {
		return false
	}
	tree, err := parseTokens(tokens)
	if err != nil {
		d.syntaxProblem(err)
		return false
	}
	if !d.singleDocument(tree) {
		return false
	}
	d.root = tree.Docs[0].Body
	ast.Walk(anchorCollector{d}, d.root)
	return len(d.problems) == 0
}

// parseTokens turns a panic of the parser into an error.
func parseTokens(tokens token.Tokens) (tree *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the YAML cannot be read")
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// checkTokens refuses what the format does not need and what would make the
// parser run long or deep.
func (d *document) checkTokens(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		d.problem(position{1, 1}, "", fmt.Sprintf("the profile has more than %d tokens", maxTokens), "Split it: one file describes one upstream.")
		return false
	}
	depth, line, dashes := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			dashes++
		case token.TagType, token.DirectiveType, token.MappingKeyType:
			d.problem(positionOf(t), "", fmt.Sprintf("%q: tags, directives and complex keys are not used in profiles", clip(t.Value, 20)), "Remove it; put text that starts with such a sign in quotes.")
			return false
		}
		if depth > maxNesting || dashes > maxNesting {
			d.problem(positionOf(t), "", "nested too deeply", "")
			return false
		}
	}
	return true
}

func (d *document) syntaxProblem(err error) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		d.problem(position{1, 1}, "", "not valid YAML", "")
		return
	}
	help := ""
	switch {
	case strings.Contains(syntax.GetMessage(), "character '\t'"):
		help = "YAML is indented with blanks: replace the tab."
	case strings.Contains(syntax.GetMessage(), "must be specified"):
		help = "Inside {…} and […] YAML reads , [ ] { } as its own: put such text in quotes, or write the mapping on lines of its own."
	}
	d.problem(positionOf(syntax.GetToken()), "", clip(syntax.GetMessage(), 200), help)
}

func (d *document) singleDocument(tree *ast.File) bool {
	if len(tree.Docs) > 1 && tree.Docs[1].Body != nil {
		d.problem(positionOf(tree.Docs[1].Body.GetToken()), "", "a second YAML document begins here", "One file describes one upstream: move it to a file of its own.")
		return false
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		d.problem(position{1, 1}, "", "the profile is empty", "Start with `version: 1`.")
		return false
	}
	return true
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, max(t.Position.Column, 1)}
}

func (d *document) problem(at position, path, message, help string) {
	follows := func(p Problem) bool { return p.Line == at.line && p.Column == at.column && p.Path == path }
	if len(d.problems) >= maxProblems || slices.ContainsFunc(d.problems, follows) {
		return // one problem of a member is enough
	}
	d.problems = append(d.problems, Problem{
		Line: at.line, Column: at.column, Path: path,
		Message: printable(message), Help: help, Excerpt: excerpt(d.lines, at),
	})
}

// err gives what was found wrong, in the order of the file.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return &ParseError{File: d.file, Problems: d.problems}
}

// anchorCollector notes every anchor, so that an alias finds what it means.
type anchorCollector struct{ d *document }

// Visit implements ast.Visitor.
func (c anchorCollector) Visit(n ast.Node) ast.Visitor {
	anchor, ok := n.(*ast.AnchorNode)
	if !ok {
		return c
	}
	name := anchor.Name.GetToken().Value
	if _, twice := c.d.anchors[name]; twice {
		c.d.problem(positionOf(anchor.GetToken()), "", fmt.Sprintf("the anchor %q is set twice", clip(name, 40)), "Give each anchor its own name.")
	}
	c.d.anchors[name] = anchor.Value
	return c
}

// resolve follows anchors and aliases to the node they stand for.
func (d *document) resolve(n ast.Node) ast.Node {
	for range maxNesting {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.problem(positionOf(v.GetToken()), "", fmt.Sprintf("no anchor %q", clip(name, 40)), "Set it with &"+clip(name, 40)+" before it is used.")
				return nil
			}
			n = target
		default:
			return n
		}
	}
	return nil
}
