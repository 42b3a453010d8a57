package reconcile

import "context"

// TakeDue claims rounds that are due, as a process does before it makes them.
func (e *Engine) TakeDue(ctx context.Context) (int, error) {
	list, err := e.tryClaim(ctx, nil, roundsAtOnce)
	return len(list), err
}
