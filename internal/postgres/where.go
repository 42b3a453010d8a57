package postgres

import (
	"fmt"
	"strings"
)

// Where collects the conditions of a filter with their arguments, so that no text of
// a filter enters the SQL.
type Where struct {
	conditions []string
	args       []any
}

// And adds a condition in which ? stands for the values, in their order.
func (w *Where) And(condition string, values ...any) {
	for _, v := range values {
		w.args = append(w.args, v)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

// Build gives the WHERE and its arguments; there has to be a condition.
func (w *Where) Build() (sql string, args []any) {
	return "WHERE " + strings.Join(w.conditions, " AND "), w.args
}
