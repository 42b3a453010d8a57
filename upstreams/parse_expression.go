package upstreams

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"github.com/goccy/go-yaml/ast"
)

const variablesHelp = "Expressions are CEL over status, headers, json, text and attempt (in lookups also command)."

// condition reads an expression that has to be there and give true or false.
func (r *reader) condition(m *mapping, name string, env *cel.Env) *Expression {
	found, ok := m.get(name)
	if !ok {
		m.required(name, variablesHelp)
		return nil
	}
	return r.expression(item{m.doc, m.join(name), found.value}, env, true)
}

// value reads an expression for a piece of the response, with a default. ""
// means that there is none.
func (r *reader) value(m *mapping, name, fallback string) *Expression {
	if !m.has(name) {
		m.asked = append(m.asked, name)
		e, _ := r.compiler.compile(r.compiler.answers, fallback, false)
		return e
	}
	return r.optional(m, name, r.compiler.answers)
}

// optional reads an expression that may be left out.
func (r *reader) optional(m *mapping, name string, env *cel.Env) *Expression {
	found, ok := m.get(name)
	if !ok {
		return nil
	}
	if s, isText := textNode(found.value); isText && s == "" {
		return nil
	}
	return r.expression(item{m.doc, m.join(name), found.value}, env, false)
}

// expression compiles a text, and puts what CEL finds wrong at its place in the
// file.
func (r *reader) expression(i item, env *cel.Env, condition bool) *Expression {
	source, ok := textNode(i.value)
	if !ok {
		i.fail("has to be an expression, not "+kindOf(i.value), variablesHelp)
		return nil
	}
	if strings.TrimSpace(source) == "" {
		i.fail("the expression is empty", variablesHelp)
		return nil
	}
	if r.expressions++; r.expressions > maxExpressions {
		i.fail(fmt.Sprintf("the profile has more than %d expressions", maxExpressions), "")
		return nil
	}
	e, problems := r.compiler.compile(env, source, condition)
	for _, p := range problems {
		r.doc.problem(expressionPosition(i.value, p), i.path, clip(p.Message, 300), helpFor(p.Message))
	}
	return e
}

// expressionPosition finds an error inside an expression in the file. In a block
// of several lines it is the line that counts.
func expressionPosition(n ast.Node, e expressionError) position {
	at := positionOf(n.GetToken())
	switch v := n.(type) {
	case *ast.LiteralNode:
		return position{at.line + e.Line, 1}
	case *ast.StringNode:
		if quote := v.Token.Origin; strings.HasPrefix(strings.TrimSpace(quote), `"`) || strings.HasPrefix(strings.TrimSpace(quote), "'") {
			at.column++
		}
		if e.Line == 1 {
			at.column += e.Column - 1
		}
	}
	return at
}

// helpFor says what to do about the usual mistakes.
func helpFor(message string) string {
	switch {
	case strings.Contains(message, "undeclared reference"):
		return variablesHelp
	case message == `"=" cannot be read`:
		return "Compare with == instead of =."
	case strings.Contains(message, "no matching overload"):
		return "Both sides have to be of one type: status and attempt are numbers, headers[\"x\"] is a list of texts."
	case strings.Contains(message, "cannot be read"), strings.Contains(message, "not expected"), strings.Contains(message, "missing at the end"):
		return "This is not CEL. Texts are quoted, conditions joined by && and ||."
	default:
		return ""
	}
}
