package web

import (
	"errors"
	"net/http"

	"executor/internal/operators"
)

// operatorDeed is one thing that can be done to an operator.
type operatorDeed struct {
	title, button string
	danger        bool
	says          []string
	done          string
	do            func(s *Server, v *visit, o operators.Operator, reason string) error
}

// operatorDeeds are all of them, by the last part of their address.
var operatorDeeds = map[string]operatorDeed{
	"remove": {
		title: "Take away the role of ", button: "Take it away", danger: true, done: " has no role in this tenant any more.",
		says: []string{"At the next click nothing of this tenant opens for them. Roles in other tenants stay.", "What they did stays on record under their name."},
		do: func(s *Server, v *visit, o operators.Operator, reason string) error {
			_, err := s.operators.RemoveRole(v.r.Context(), v.by(reason), o.ID, v.tenant)
			return err
		},
	},
	"disable": {
		title: "Disable ", button: "Disable", danger: true, done: " is disabled.",
		says: []string{"All their sessions and links end at once, and they cannot sign in, in any tenant.", "They can be enabled again."},
		do: func(s *Server, v *visit, o operators.Operator, reason string) error {
			_, err := s.operators.Disable(v.r.Context(), v.by(reason), o.ID)
			return err
		},
	},
	"enable": {
		title: "Enable ", button: "Enable", done: " is enabled again.",
		says: []string{"They can sign in as before."},
		do: func(s *Server, v *visit, o operators.Operator, reason string) error {
			_, err := s.operators.Enable(v.r.Context(), v.by(reason), o.ID)
			return err
		},
	},
	"end-sessions": {
		title: "End all sessions of ", button: "End them", danger: true, done: " is signed out everywhere.",
		says: []string{"They are signed out everywhere, and links that were made for them are void. They can sign in again."},
		do: func(s *Server, v *visit, o operators.Operator, reason string) error {
			_, err := s.operators.EndSessions(v.r.Context(), v.by(reason), o.ID)
			return err
		},
	},
	"link": {
		title: "Make a sign-in link for ", button: "Make the link",
		says: []string{"Whoever has the link can sign in as them, once, within a day. Pass it on by a way that you trust.", "Signed in, they can set a password. It is shown on the next page, this once."},
		do: func(s *Server, v *visit, o operators.Operator, reason string) error {
			return s.invite(v, o, reason)
		},
	},
	"role": {
		title: "Change the role of ", button: "Change it", done: " has the new role.",
		says: []string{"It holds from their next click on."},
		do: func(s *Server, v *visit, o operators.Operator, reason string) error {
			role, err := operators.ParseRole(v.form("role"))
			if err != nil {
				return badRequest("There is no role " + v.form("role") + ".")
			}
			_, err = s.operators.SetRole(v.r.Context(), v.by(reason), o.ID, v.tenant, role)
			return err
		},
	},
}

// operatorOf is who the address names, if they are of this tenant.
func (s *Server) operatorOf(v *visit) (operators.Operator, error) {
	id, err := v.id()
	if err != nil {
		return operators.Operator{}, err
	}
	o, err := s.operators.Get(v.r.Context(), id)
	if errors.Is(err, operators.ErrUnknown) {
		return o, notFound("This tenant has no such operator.")
	}
	if err != nil {
		return o, err
	}
	for _, grant := range o.Roles {
		if grant.Tenant == v.tenant {
			return o, nil
		}
	}
	return o, notFound("This tenant has no such operator.")
}

// deedOn is the page of a deed on an operator.
func (s *Server) deedOn(v *visit) (deed, operatorDeed, operators.Operator, error) {
	o, err := s.operatorOf(v)
	if err != nil {
		return deed{}, operatorDeed{}, o, err
	}
	name := v.param("deed")
	what := operatorDeeds[name]
	d := deed{
		Title: what.title + o.Name, Says: what.says, Action: "/operators/" + o.ID.String() + "/" + name, Button: what.button, Danger: what.danger, Back: "/operators",
	}
	if name == "role" {
		role, err := operators.ParseRole(v.r.FormValue("role"))
		if err != nil {
			return d, what, o, badRequest("Choose a role first.")
		}
		d.Hidden = []fact{{"role", string(role)}}
		d.Facts = []fact{{"Role now", string(o.Role(v.tenant))}, {"New role", string(role)}}
	}
	return d, what, o, nil
}

func (s *Server) askOperator(v *visit) error {
	d, _, _, err := s.deedOn(v)
	if err != nil {
		return err
	}
	return v.ask(d)
}

func (s *Server) changeOperator(v *visit) error {
	d, what, o, err := s.deedOn(v)
	if err != nil {
		return err
	}
	reason, ok, err := v.reason(d)
	if !ok {
		return err
	}
	err = what.do(s, v, o, reason)
	var invalid *operators.Invalid
	switch {
	case errors.Is(err, operators.ErrLastAdmin), errors.Is(err, operators.ErrSelf), errors.Is(err, operators.ErrForbidden), errors.As(err, &invalid):
		return &failure{http.StatusConflict, "Not possible", capital(err.Error()) + "."}
	case errors.Is(err, operators.ErrUnknown):
		return notFound("This tenant has no such operator any more.")
	case err != nil || what.done == "":
		return err
	}
	v.tell("good", o.Name+what.done)
	return v.redirect("/operators")
}
