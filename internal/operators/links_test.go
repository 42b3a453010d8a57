package operators

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestALinkWorksOnce(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleAdmin)
	token := must[string](t)(r.CreateLink(r.ctx, root, ann.ID, time.Hour))
	errs := atOnce(8, func(int) error {
		o, err := r.UseLink(r.ctx, token)
		if err == nil && (o.ID != ann.ID || o.Role(tenant) != RoleAdmin) {
			t.Errorf("UseLink = %+v", o)
		}
		return err
	})
	if countErrors(errs, nil) != 1 || countErrors(errs, ErrLink) != 7 {
		t.Errorf("used by eight at once: %v", errs)
	}
	for _, bad := range []string{"", token + "x", "\x00\xff"} {
		if _, err := r.UseLink(r.ctx, bad); !errors.Is(err, ErrLink) {
			t.Errorf("UseLink(%q): %v", bad, err)
		}
	}
}

func TestWhatVoidsALink(t *testing.T) {
	r := newRig(t)
	for what, do := range map[string]func(r *rig, o Operator) error{
		"its time": func(r *rig, _ Operator) error { r.exec(`UPDATE operator_links SET expires_at = now()`); return nil },
		"another password": func(r *rig, o Operator) error {
			_, err := r.SetPassword(r.ctx, root, o.ID, "another password")
			return err
		},
		"ended sessions": func(r *rig, o Operator) error { _, err := r.EndSessions(r.ctx, root, o.ID); return err },
		"no role":        func(r *rig, o Operator) error { _, err := r.RemoveRole(r.ctx, root, o.ID, tenant); return err },
		"disabled": func(r *rig, o Operator) error {
			_, err := r.Disable(r.ctx, root, o.ID)
			_, again := r.Enable(r.ctx, root, o.ID)
			return errors.Join(err, again)
		},
	} {
		t.Run(what, func(t *testing.T) {
			ann := r.add(strings.ReplaceAll(what, " ", "."), RoleViewer)
			token := must[string](t)(r.CreateLink(r.ctx, root, ann.ID, time.Hour))
			if err := do(r, ann); err != nil {
				t.Fatal(err)
			}
			if _, err := r.UseLink(r.ctx, token); !errors.Is(err, ErrLink) {
				t.Errorf("UseLink: %v", err)
			}
		})
	}
}

func TestLinksThatCannotBe(t *testing.T) {
	r := newRig(t)
	ann, gone, bare := r.add("ann", RoleViewer), r.add("gone", RoleViewer), r.add("bare", RoleViewer)
	must[Operator](t)(r.Disable(r.ctx, root, gone.ID))
	must[Operator](t)(r.RemoveRole(r.ctx, root, bare.ID, tenant))
	for _, tt := range []struct {
		o   Operator
		ttl time.Duration
	}{{ann, 0}, {ann, -time.Hour}, {ann, MaxLink + 1}, {gone, time.Hour}, {bare, time.Hour}} {
		var wrong *Invalid
		if _, err := r.CreateLink(r.ctx, root, tt.o.ID, tt.ttl); !errors.As(err, &wrong) {
			t.Errorf("CreateLink(%s, %s): %v", tt.o.Name, tt.ttl, err)
		}
	}
	must[string](t)(r.CreateLink(r.ctx, root, ann.ID, time.Hour))
	r.exec(`UPDATE operator_links SET expires_at = now() - interval '1 second'`)
	must[string](t)(r.CreateLink(r.ctx, root, ann.ID, time.Hour))
	var rows int
	if err := r.pool.QueryRow(r.ctx, `SELECT count(*) FROM operator_links`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d links are kept, %v; want the one that works", rows, err)
	}
}
