package web

import (
	"net/http"

	"executor/commands"
)

// deed is the page before an action that needs only a reason: what will happen,
// and a form. It is shown again with what was wrong.
type deed struct {
	Title  string   // "Freeze the deployment"
	Says   []string // consequences, a sentence each
	Facts  []fact   // what it is about
	Action string   // where the form goes
	Hidden []fact   // further values of the form
	Button string
	Danger bool
	Back   string // where "Leave it as it is" leads
	Reason string // as typed
	Wrong  string // about the reason
	NoAsk  bool   // no reason is asked for
}

// fact is a name and its value.
type fact struct{ Name, Value string }

func (v *visit) ask(d deed) error { return v.render("deed.html", d.Title, d) }

// reason is what the form gives as a reason. Without one the page is shown again.
func (v *visit) reason(d deed) (string, bool, error) {
	reason := v.form("reason")
	if d.Wrong = wrongReason(reason); d.Wrong == "" {
		return reason, true, nil
	}
	d.Reason = reason
	return "", false, v.renderStatus(http.StatusUnprocessableEntity, "deed.html", d.Title, d)
}

// wrongReason is what is wrong with a reason that goes on record; "" if nothing is.
func wrongReason(reason string) string {
	switch {
	case reason == "":
		return "Say why: it is put on record under your name."
	case len(reason) > maxReason:
		return "Keep it below 2,000 characters; put the rest where it belongs and name the place."
	case commands.CleanText(reason) != reason:
		return "It is text in UTF-8 without NUL."
	default:
		return ""
	}
}

// maxReason is the most that the audit takes, in bytes.
const maxReason = 2000
