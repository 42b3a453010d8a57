package operators

import (
	"errors"
	"slices"
	"testing"

	"executor/internal/audit"
)

// deeds lists a tenant's audit, oldest first.
func (r *rig) deeds(tenant string) []string {
	r.t.Helper()
	entries, _, err := audit.List(r.ctx, r.pool, audit.Filter{Tenant: tenant, Limit: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	var list []string
	for _, e := range slices.Backward(entries) {
		list = append(list, e.Action+" "+e.Subject+" "+string(e.Before)+" "+string(e.After)+" by "+e.Actor+" "+e.Reason)
	}
	return list
}

func TestEachDeedIsOnRecord(t *testing.T) {
	r := newRig(t)
	ann, bob := r.add("ann", RoleAdmin), r.add("bob", RoleViewer)
	by := as(ann)
	by.Reason = "as agreed"
	must[Operator](t)(r.SetRole(r.ctx, by, bob.ID, tenant, RoleOperator))
	must[Operator](t)(r.SetRole(r.ctx, by, bob.ID, tenant, RoleOperator)) // changes nothing
	must[Operator](t)(r.Disable(r.ctx, by, bob.ID))
	must[Operator](t)(r.Disable(r.ctx, by, bob.ID))
	must[Operator](t)(r.Enable(r.ctx, by, bob.ID))
	must[Operator](t)(r.Enable(r.ctx, by, bob.ID))
	must[string](t)(r.CreateLink(r.ctx, by, bob.ID, MaxLink))
	must[Operator](t)(r.SetPassword(r.ctx, by, bob.ID, "another password"))
	must[Operator](t)(r.EndSessions(r.ctx, by, bob.ID))
	must[Operator](t)(r.SetRole(r.ctx, root, bob.ID, "acme", RoleViewer))
	must[Operator](t)(r.EndSessions(r.ctx, root, bob.ID)) // takes effect in both
	must[Operator](t)(r.RemoveRole(r.ctx, by, bob.ID, tenant))
	must[Operator](t)(r.RemoveRole(r.ctx, root, bob.ID, "acme"))
	must[Operator](t)(r.RemoveRole(r.ctx, root, bob.ID, "acme"))
	must[Operator](t)(r.Disable(r.ctx, root, bob.ID)) // takes effect in none
	for tenant, want := range map[string][]string{
		tenant: {
			`operator.create ann  {"role":"admin"} by root `,
			`operator.create bob  {"role":"viewer"} by root `,
			`operator.role bob {"role":"viewer"} {"role":"operator"} by ann as agreed`,
			`operator.disable bob {"disabled":false} {"disabled":true} by ann as agreed`,
			`operator.enable bob {"disabled":true} {"disabled":false} by ann as agreed`,
			`operator.link bob  {"works_for":"168h0m0s"} by ann as agreed`,
			`operator.password bob   by ann as agreed`,
			`operator.end_sessions bob   by ann as agreed`,
			`operator.end_sessions bob   by root `,
			`operator.role bob {"role":"operator"}  by ann as agreed`,
		},
		"acme": {
			`operator.role bob  {"role":"viewer"} by root `,
			`operator.end_sessions bob   by root `,
			`operator.role bob {"role":"viewer"}  by root `,
		},
		audit.Deployment: {`operator.disable bob {"disabled":false} {"disabled":true} by root `},
	} {
		if got := r.deeds(tenant); !slices.Equal(got, want) {
			t.Errorf("audit of %s:\n%q\nwant\n%q", tenant, got, want)
		}
	}
}

// What cannot be put on record is not done.
func TestNoDeedWithoutARecord(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	r.exec(`ALTER TABLE audit ADD CHECK (number < 2)`)
	if _, err := r.Create(r.ctx, root, New{Name: "bob", Tenant: tenant, Role: RoleAdmin}); err == nil {
		t.Error("created without a record")
	}
	if _, err := r.SetRole(r.ctx, root, ann.ID, tenant, RoleAdmin); err == nil {
		t.Error("another role without a record")
	}
	if _, err := r.CreateLink(r.ctx, root, ann.ID, MaxLink); err == nil {
		t.Error("a link without a record")
	}
	if list := must[[]Operator](t)(r.List(r.ctx, tenant)); len(list) != 1 || list[0].Role(tenant) != RoleViewer {
		t.Errorf("there are %+v", list)
	}
}

func TestTheLastAdminStays(t *testing.T) {
	r := newRig(t)
	ann, bob := r.add("ann", RoleAdmin), r.add("bob", RoleAdmin)
	must[Operator](t)(r.Disable(r.ctx, as(ann), bob.ID)) // one who is disabled does not count
	for what, do := range map[string]func(by By) error{
		"RemoveRole": func(by By) error { _, err := r.RemoveRole(r.ctx, by, ann.ID, tenant); return err },
		"SetRole":    func(by By) error { _, err := r.SetRole(r.ctx, by, ann.ID, tenant, RoleOperator); return err },
		"Disable":    func(by By) error { _, err := r.Disable(r.ctx, by, ann.ID); return err },
	} {
		if err := do(root); !errors.Is(err, ErrLastAdmin) {
			t.Errorf("%s of the last admin: %v", what, err)
		}
		if err := do(as(ann)); !errors.Is(err, ErrLastAdmin) && !(what == "Disable" && errors.Is(err, ErrSelf)) {
			t.Errorf("%s of oneself, the last admin: %v", what, err)
		}
	}
	must[Operator](t)(r.Enable(r.ctx, as(ann), bob.ID))
	if _, err := r.Disable(r.ctx, as(ann), ann.ID); !errors.Is(err, ErrSelf) {
		t.Errorf("Disable of oneself: %v", err)
	}
	must[Operator](t)(r.RemoveRole(r.ctx, as(ann), ann.ID, tenant)) // to step down is allowed
}

// Of two admins who take each other's rights at once, one is too late.
func TestTwoAdminsAtOnce(t *testing.T) {
	r := newRig(t)
	for _, do := range []func(by By, o Operator) error{
		func(by By, o Operator) error { _, err := r.RemoveRole(r.ctx, by, o.ID, tenant); return err },
		func(by By, o Operator) error { _, err := r.Disable(r.ctx, by, o.ID); return err },
		func(by By, o Operator) error { _, err := r.SetRole(r.ctx, by, o.ID, tenant, RoleViewer); return err },
		func(_ By, o Operator) error { _, err := r.Disable(r.ctx, root, o.ID); return err },
	} {
		r.exec(`TRUNCATE operators CASCADE`)
		pair := []Operator{r.add("ann", RoleAdmin), r.add("bob", RoleAdmin)}
		errs := atOnce(2, func(i int) error { return do(as(pair[i]), pair[1-i]) })
		if countErrors(errs, nil) != 1 || countErrors(errs, ErrForbidden)+countErrors(errs, ErrLastAdmin) != 1 {
			t.Errorf("two at once: %v", errs)
		}
		admins := 0
		for _, o := range must[[]Operator](t)(r.List(r.ctx, tenant)) {
			if o.Role(tenant) == RoleAdmin {
				admins++
			}
		}
		if admins != 1 {
			t.Errorf("%d admins are left", admins)
		}
	}
}

// TestNobodyIsDrawnIntoAnotherTenant: an admin who let somebody of another tenant into
// their own would take from that tenant's admins what takes all of them.
func TestNobodyIsDrawnIntoAnotherTenant(t *testing.T) {
	r := newRig(t)
	ann, otto := r.add("ann", RoleAdmin), r.add("otto", RoleOperator)
	eve := must[Operator](t)(r.Create(r.ctx, root, New{Name: "eve", Tenant: "acme", Role: RoleAdmin}))
	if _, err := r.SetRole(r.ctx, as(eve), otto.ID, "acme", RoleViewer); !errors.Is(err, ErrForbidden) {
		t.Errorf("somebody of another tenant is let in: %v", err)
	}
	must[Operator](t)(r.EndSessions(r.ctx, as(ann), otto.ID))
	must[Operator](t)(r.SetRole(r.ctx, root, eve.ID, tenant, RoleAdmin)) // now an admin of both
	must[Operator](t)(r.SetRole(r.ctx, as(eve), otto.ID, "acme", RoleViewer))
}

// TestAnAccountOfNobodyStartsAnew: who takes over an account that has no role left
// finds no password, session or link of those before.
func TestAnAccountOfNobodyStartsAnew(t *testing.T) {
	r := newRig(t)
	ann, otto := r.add("ann", RoleAdmin), r.add("otto", RoleOperator)
	must[string](t)(r.CreateLink(r.ctx, as(ann), otto.ID, MaxLink))
	must[Operator](t)(r.RemoveRole(r.ctx, as(ann), otto.ID, tenant))
	eve := must[Operator](t)(r.Create(r.ctx, root, New{Name: "eve", Tenant: "acme", Role: RoleAdmin}))
	taken := must[Operator](t)(r.SetRole(r.ctx, as(eve), otto.ID, "acme", RoleAdmin))
	if taken.HasPassword || taken.Epoch <= otto.Epoch {
		t.Errorf("it keeps its password (%v) and sessions (epoch %d, was %d)", taken.HasPassword, taken.Epoch, otto.Epoch)
	}
}

// Nobody changes rights who is not an admin wherever that takes effect.
func TestWhoMayChangeRights(t *testing.T) {
	r := newRig(t)
	ann, otto := r.add("ann", RoleAdmin), r.add("otto", RoleOperator)
	gone := r.add("gone", RoleAdmin)
	must[Operator](t)(r.Disable(r.ctx, root, gone.ID))
	both := r.add("both", RoleViewer) // has a role in a tenant that ann knows nothing of
	must[Operator](t)(r.SetRole(r.ctx, root, both.ID, "acme", RoleAdmin))
	mine := r.add("mine", RoleViewer)
	bare := r.add("bare", RoleViewer)
	must[Operator](t)(r.RemoveRole(r.ctx, root, bare.ID, tenant))

	account := func(by By, o Operator) map[string]error {
		errs := map[string]error{}
		_, errs["Disable"] = r.Disable(r.ctx, by, o.ID)
		_, errs["Enable"] = r.Enable(r.ctx, by, o.ID)
		_, errs["SetPassword"] = r.SetPassword(r.ctx, by, o.ID, "another password")
		_, errs["EndSessions"] = r.EndSessions(r.ctx, by, o.ID)
		_, errs["CreateLink"] = r.CreateLink(r.ctx, by, o.ID, MaxLink)
		return errs
	}
	for _, tt := range []struct {
		who  string
		by   By
		on   Operator
		want error
	}{
		{"an operator", as(otto), mine, ErrForbidden},
		{"a disabled admin", as(gone), mine, ErrForbidden},
		{"nobody", By{Actor: "x", Operator: [16]byte{1}}, mine, ErrForbidden},
		{"an admin of one of two tenants", as(ann), both, ErrForbidden},
		{"an admin, of somebody without a role", as(ann), bare, ErrForbidden},
		{"an admin", as(ann), mine, nil},
	} {
		for what, err := range account(tt.by, tt.on) {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s by %s: %v, want %v", what, tt.who, err, tt.want)
			}
		}
	}
	for what, err := range map[string]error{
		"Create elsewhere": func() error {
			_, err := r.Create(r.ctx, as(ann), New{Name: "new", Tenant: "acme", Role: RoleViewer})
			return err
		}(),
		"SetRole elsewhere":    func() error { _, err := r.SetRole(r.ctx, as(ann), ann.ID, "acme", RoleAdmin); return err }(),
		"RemoveRole elsewhere": func() error { _, err := r.RemoveRole(r.ctx, as(ann), both.ID, "acme"); return err }(),
		"SetRole of oneself":   func() error { _, err := r.SetRole(r.ctx, as(otto), otto.ID, tenant, RoleAdmin); return err }(),
	} {
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must[Operator](t)(r.SetRole(r.ctx, as(ann), both.ID, tenant, RoleOperator)) // their role here is hers to give
	must[Operator](t)(r.SetPassword(r.ctx, as(otto), otto.ID, "my next password"))
}
