package web

import (
	"io"
	"slices"

	"executor/internal/operators"
)

// MaxLiveOfOne bounds the live pages of one person.
const MaxLiveOfOne = maxLiveOfOne

// Route is a page or an action as tests walk them.
type Route struct {
	Method, Pattern string
	Role            operators.Role
}

// AllRoutes lists every page and action.
func AllRoutes() []Route {
	var list []Route
	for _, r := range routes() {
		list = append(list, Route{r.method, r.pattern, r.role})
	}
	return list
}

// Inert is inert.
func Inert(page []byte) []byte { return inert(page) }

// CSVRow is a line of a table as a spreadsheet gets it.
func CSVRow(w io.Writer, cells ...string) error {
	c := newCSV(w)
	if err := c.row(cells...); err != nil {
		return err
	}
	return c.flush()
}

// ReviewFields are the parameters of the review queue.
func ReviewFields() []string { return slices.Clone(reviewFields) }
