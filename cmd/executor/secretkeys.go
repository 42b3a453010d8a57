package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/webhooks"
)

// requireKeys refuses to start where the database keeps secrets that this process
// could not read: it would take deliveries up and be able to sign none.
func requireKeys(ctx context.Context, pool *pgxpool.Pool, config Config) error {
	box, err := config.box()
	if err != nil {
		return err
	}
	store := webhooks.NewStore(webhooks.Config{Pool: pool, Box: box})
	defer store.Close()
	list, err := store.Sealed(ctx)
	if err != nil {
		return err
	}
	for _, u := range list {
		if !u.Known {
			return fmt.Errorf("%s of webhooks %s sealed under the key %s, which EXECUTOR_ENCRYPTION_KEY does not hold: "+
				`add it, behind the current one if it is older; if it is lost, see "executor secrets forget --help"`, some(u.Count, "secret"), does(u.Count, "is", "are"), u.Key)
		}
	}
	return nil
}

// sealed says under which keys secrets are kept.
func (d *doctor) sealed(ctx context.Context) ([]finding, error) {
	box, err := d.config.box()
	if err != nil {
		return []finding{{"sealed secrets", statusFail, "EXECUTOR_ENCRYPTION_KEY: " + err.Error(), "correct it"}}, nil
	}
	store := webhooks.NewStore(webhooks.Config{Pool: d.pool, Box: box})
	defer store.Close()
	list, err := store.Sealed(ctx)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	f := finding{"sealed secrets", statusOK, "", ""}
	var texts []string
	for _, v := range sealedViews(list) {
		texts = append(texts, fmt.Sprintf("%d under the key %s (%s)", v.Count, v.Key, v.State))
		switch {
		case v.State == "missing" && box != nil:
			f.Status, f.Fix = statusFail, `add that key to EXECUTOR_ENCRYPTION_KEY; if it is lost, "executor secrets forget"`
		case v.State == "missing":
			f.Status, f.Fix = statusWarn, "EXECUTOR_ENCRYPTION_KEY is not set here; processes without it do not start"
		case v.State == "older" && f.Status == statusOK:
			f.Status, f.Fix = statusWarn, `"executor secrets rotate", then the older key can go`
		}
	}
	f.Detail = strings.Join(texts, ", ")
	return []finding{f}, nil
}
