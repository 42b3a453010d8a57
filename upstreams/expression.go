package upstreams

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Bounds of one expression. The cost of CEL counts operations, not time: a
// comparison costs about one, a search in a text about a tenth per byte.
const (
	maxExpressionLength = 4096      // characters
	maxEstimatedCost    = 2_000_000 // for lists of a hundred items; three nested loops are over it
	maxRunCost          = 1_000_000 // well under a tenth of a second
	maxRegexProgram     = 2000
)

// Expression is a CEL expression of a profile, type-checked and planned. It is
// safe for concurrent use.
type Expression struct {
	Source string

	needsBody      bool           // it names json or text
	countsAttempts bool           // it names attempt
	asksDoubt      bool           // it names in_doubt
	jsonSteps      map[int64]bool // ids of the steps that read json
	status         int            // the first HTTP status it names, else 200
	sides          []*Expression  // of a comparison `a == b` under compare: both, to show where they differ
	program        cel.Program
	root           interpreter.Interpretable // the outermost step of the plan
}

// errMissing says that an expression asked for a member that is not there.
var errMissing = errors.New("no such member")

// Bool evaluates a condition.
func (e *Expression) Bool(vars map[string]any) (bool, error) {
	out, err := e.eval(vars)
	if err != nil {
		return false, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("gives %s, not true or false", typeName(out))
	}
	return bool(b), nil
}

// Text evaluates an expression that names a piece of the response. Numbers keep
// the digits they were written with. A missing member, null and an empty
// optional give errMissing; lists, maps and booleans are errors.
func (e *Expression) Text(vars map[string]any) (string, error) {
	out, err := e.eval(vars)
	if err != nil {
		return "", err
	}
	if o, ok := out.(*types.Optional); ok {
		if !o.HasValue() {
			return "", errMissing
		}
		out = o.GetValue()
	}
	switch v := out.(type) {
	case types.Null:
		return "", errMissing
	case types.String:
		return string(v), nil
	case types.Int, types.Uint:
		return fmt.Sprint(v.Value()), nil
	case types.Double:
		return e.digits(vars, float64(v)), nil
	default:
		return "", fmt.Errorf("gives %s, not text or a number", typeName(out))
	}
}

func (e *Expression) eval(vars map[string]any) (ref.Val, error) {
	out, _, err := e.program.Eval(vars)
	if err == nil {
		return out, nil
	}
	for _, missing := range []string{"no such key", "index out of bounds"} {
		if strings.Contains(err.Error(), missing) {
			return nil, fmt.Errorf("%w: %w", errMissing, err)
		}
	}
	return nil, err
}

// show evaluates one side of a comparison for people.
func (e *Expression) show(vars map[string]any) string {
	out, err := e.eval(vars)
	if err != nil {
		return "nothing"
	}
	switch v := out.(type) {
	case types.String:
		return clip(strconv.Quote(string(v)), 100)
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Int, types.Uint:
		return fmt.Sprint(v.Value())
	case types.Double:
		return clip(e.digits(vars, float64(v)), 100)
	default:
		return typeName(out)
	}
}

// failedOnJSON says whether a failed evaluation failed at a step that reads json.
func (e *Expression) failedOnJSON(err error) bool {
	var at *types.Err
	return errors.As(err, &at) && e.jsonSteps[at.NodeID()]
}

// digits gives back how a number was written, such as 12.50. Where it is a member
// of the document and not computed, the plan's outermost step still finds the
// original.
func (e *Expression) digits(vars map[string]any, value float64) string {
	if attr, ok := e.root.(interpreter.InterpretableAttribute); ok {
		if activation, err := interpreter.NewActivation(vars); err == nil {
			raw, err := attr.Attr().Resolve(activation)
			if n, ok := raw.(number); ok && err == nil {
				return string(n)
			}
		}
	}
	return formatFloat(value)
}

func typeName(v ref.Val) string {
	switch v.Type() {
	case types.NullType:
		return "null"
	case types.BoolType:
		return "true or false"
	case types.ListType:
		return "a list"
	case types.MapType:
		return "an object"
	default:
		return "a " + v.Type().TypeName()
	}
}

// compiler compiles the expressions of one profile.
type compiler struct {
	notices *cel.Env // status, headers, json, text, attempt
	answers *cel.Env // the same and in_doubt
	lookups *cel.Env // the same as notices, and command
}

// commandFields are the members of the variable `command` of lookups.
var commandFields = []string{"key", "id", "params", "body", "reference"}

func newCompiler() (*compiler, error) {
	notices, err := cel.NewEnv(
		cel.Variable("status", cel.IntType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("json", cel.DynType),
		cel.Variable("text", cel.StringType),
		cel.Variable("attempt", cel.IntType),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableErrorOnBadPresenceTest(true), // has(json.x) on a body that is no object is an error, not "no"
		cel.CustomTypeAdapter(adapter{types.DefaultTypeAdapter}),
		cel.ParserExpressionSizeLimit(maxExpressionLength),
		cel.ParserRecursionLimit(64),
		cel.RegexProgramSizeLimit(maxRegexProgram),
	)
	if err != nil {
		return nil, fmt.Errorf("expression environment: %w", err)
	}
	answers, err := notices.Extend(cel.Variable("in_doubt", cel.BoolType))
	if err != nil {
		return nil, fmt.Errorf("expression environment of answers: %w", err)
	}
	lookups, err := notices.Extend(cel.Variable("command", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		return nil, fmt.Errorf("expression environment of lookups: %w", err)
	}
	return &compiler{notices: notices, answers: answers, lookups: lookups}, nil
}

// expressionError is one thing wrong with an expression. Line and Column count
// from 1 inside the expression.
type expressionError struct {
	Line, Column int
	Message      string
}

// compile checks and plans one expression. A condition has to be of type bool;
// any other expression may give text, a number or anything only known at run
// time.
func (c *compiler) compile(env *cel.Env, source string, condition bool) (*Expression, []expressionError) {
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, issuesOf(issues.Errors())
	}
	native := checked.NativeRep()
	if err := c.checkShape(native, checked.OutputType(), condition); err != nil {
		return nil, []expressionError{{1, 1, err.Error()}}
	}
	if estimate, err := env.EstimateCost(checked, sizes{}); err != nil || estimate.Max > maxEstimatedCost {
		return nil, []expressionError{{1, 1, "may take too long: it searches lists inside lists inside lists, or long texts over and over"}}
	}
	root := native.Expr()
	e := &Expression{
		Source:    source,
		needsBody: names(root, "json") || names(root, "text"), countsAttempts: names(root, "attempt"), asksDoubt: names(root, "in_doubt"), status: statusOf(native),
		jsonSteps: steps(root, "json"),
	}
	var err error
	e.program, err = env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(maxRunCost),
		cel.CustomDecorator(func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
			e.root = i // the planner works from the leaves up: the last call is the root
			return i, nil
		}))
	if err != nil {
		return nil, []expressionError{{1, 1, err.Error()}}
	}
	return e, nil
}

// sides compiles both sides of a comparison for equality; nil for anything else.
func (c *compiler) sides(env *cel.Env, source string) []*Expression {
	checked, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil
	}
	tree := checked.NativeRep()
	root := tree.Expr()
	if root.Kind() != ast.CallKind || root.AsCall().FunctionName() != operators.Equals {
		return nil
	}
	var out []*Expression
	for _, arg := range root.AsCall().Args() {
		text, err := cel.ExprToString(arg, tree.SourceInfo())
		if err != nil {
			return nil
		}
		side, problems := c.compile(env, text, false)
		if problems != nil {
			return nil
		}
		out = append(out, side)
	}
	return out
}

func (c *compiler) checkShape(tree *ast.AST, result *cel.Type, condition bool) error {
	if unknown := unknownCommandField(tree.Expr()); unknown != "" {
		return fmt.Errorf("command has no member %q; it has %s", unknown, strings.Join(commandFields, ", "))
	}
	if condition && !result.IsExactType(cel.BoolType) {
		return fmt.Errorf("gives %s, but a condition has to give true or false; compare it with something, such as `== true`", result)
	}
	return nil
}

// issuesOf puts CEL's complaints into our form. Of what cannot be read only the
// first is told: the rest follows from it.
func issuesOf(list []*common.Error) []expressionError {
	var out []expressionError
	for _, issue := range list {
		line, column := 1, 1
		if issue.Location.Line() > 0 {
			line, column = issue.Location.Line(), issue.Location.Column()+1
		}
		if syntax, ok := strings.CutPrefix(issue.Message, "Syntax error: "); ok {
			return append(out, expressionError{line, column, syntaxMessage(syntax)})
		}
		out = append(out, expressionError{line, column, strings.ReplaceAll(issue.Message, " (in container '')", "")})
	}
	return out
}

var (
	unreadable = regexp.MustCompile(`^token recognition error at: '(.*)'$`)
	unexpected = regexp.MustCompile(`^(?:extraneous|mismatched|no viable alternative at) input '(.*?)'(?: expecting .*)?$`)
)

// syntaxMessage puts a complaint of the parser's generator into words.
func syntaxMessage(s string) string {
	if m := unreadable.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("%q cannot be read", strings.TrimSpace(m[1]))
	}
	if m := unexpected.FindStringSubmatch(s); m != nil {
		if m[1] == "<EOF>" {
			return "something is missing at the end"
		}
		return fmt.Sprintf("%q is not expected here", m[1])
	}
	return s
}

// names says whether an expression, or a step of one, mentions a variable.
func names(root ast.Expr, variable string) bool {
	found := false
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.IdentKind && e.AsIdent() == variable
	}))
	return found
}

// steps lists the ids of the steps of an expression that mention a variable.
func steps(root ast.Expr, variable string) map[int64]bool {
	ids := map[int64]bool{}
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if names(e, variable) {
			ids[e.ID()] = true
		}
	}))
	return ids
}

// unknownCommandField finds a misspelt member of `command`, which the checker
// lets through because it is a map.
func unknownCommandField(root ast.Expr) (unknown string) {
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.SelectKind {
			return
		}
		of := e.AsSelect().Operand()
		if of.Kind() == ast.IdentKind && of.AsIdent() == "command" && !slices.Contains(commandFields, e.AsSelect().FieldName()) {
			unknown = e.AsSelect().FieldName()
		}
	}))
	return unknown
}

// sizes tells CEL's cost estimate how large an upstream's answer is taken to
// be; the limit at run time holds for larger ones.
type sizes struct{}

func (sizes) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	return &cost.SizeEstimate{Min: 0, Max: 100}
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
