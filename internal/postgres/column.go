package postgres

// Column picks one column of rows, as unnest takes a batch.
func Column[R, T any](rows []R, pick func(R) T) []T {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = pick(r)
	}
	return values
}
